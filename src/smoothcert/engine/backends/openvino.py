"""OpenVINO, in float32 or int8 (quantised by NNCF)."""

from __future__ import annotations

import io
import logging
import os
import struct
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smoothcert.engine.backends.base import (
    BackendTask,
    Executable,
    Padded,
    UnableError,
    backend,
    digest,
    int8_sums,
    require_agreement,
    vote_agreement,
)
from smoothcert.engine.backends.cache import artifact, calibration_digest
from smoothcert.engine.backends.export import ONNX, PACKAGES, for_rows, onnx_bytes, rows_of_call
from smoothcert.engine.backends.inductor import first_line
from smoothcert.models.formats.onnx import OnnxModel
from smoothcert.models.formats.onnx_export import quiet


@backend("openvino", packages=(*ONNX, "openvino"), extra="openvino")
def prepare(task: BackendTask) -> Executable:
    """float32: the scores are the model's, within rounding."""
    if "float32" not in task.precision and task.precision != "int8":
        raise UnableError(f"it computes in {task.precision}, and OpenVINO in float32")
    content = onnx_bytes(task)

    def network(shape: tuple[int, ...] | None) -> Network:
        if shape is None or isinstance(task.model, OnnxModel):
            return Network(content, shape=shape)
        return Network(for_rows(content, shape[0]))

    require_agreement(task, _in_calls(task, network))
    return Executable(partial(_in_calls, task, network), _about("openvino", task.precision, content))


@backend("openvino-int8", packages=(*ONNX, "openvino", "nncf"), extra="openvino", int8=True)
def prepare_int8(task: BackendTask) -> Executable:
    """int8 weights and activations, quantised after training: another classifier than the given one."""
    content = artifact(task, "openvino-int8", (*PACKAGES, "openvino", "nncf"), lambda: _quantise(task))
    size = struct.unpack("<Q", content[:8])[0]
    graph, weights = content[8 : 8 + size], content[8 + size :]
    about = _about("openvino-int8", "int8", content)
    about |= {"calibration": calibration_digest(task)}
    in_calls = partial(_in_calls, task, lambda shape: Network(graph, weights, shape))
    return Executable(in_calls, about | {"agreement": vote_agreement(task, in_calls())})


def _in_calls(task: BackendTask, network: Callable[[tuple[int, ...] | None], Network]) -> Padded:
    """A runner of an ONNX file in the shape of its calls, or of a graph that was exported in that shape."""
    rows = rows_of_call(task)
    fixed = isinstance(task.model, OnnxModel) and task.model.batch is not None
    resize = None if fixed else lambda fewer: network((fewer, *task.shape))
    return Padded(network((rows, *task.shape) if isinstance(task.model, OnnxModel) else None), rows, resize)


class Network:
    """A network for one thread: with a single stream of one thread OpenVINO runs it where it is called.

    Streams of a shared network have threads of their own, and every call waits for one to wake up. OpenVINO keeps
    something of every thread that has called it; so the thread that makes a network uses it and drops it. `shape` is
    that of its calls, if another than it was exported for.
    """

    def __init__(self, model: bytes, weights: bytes = b"", shape: tuple[int, ...] | None = None) -> None:
        import openvino as ov  # noqa: PLC0415 (an extra)

        options = {
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": 1,
            "ENABLE_CPU_PINNING": False,  # threads of several processes would be pinned to the same core
            "INFERENCE_PRECISION_HINT": "f32",  # else it is bf16, silently, on processors that have it
        }
        core = ov.Core()
        try:
            network = core.read_model(model, weights)
            if shape is not None:
                network.reshape({0: list(shape)})
            compiled = core.compile_model(network, "CPU", options)
            request = compiled.create_infer_request()
        except Exception as error:
            raise UnableError(f"OpenVINO cannot load it: {first_line(error)}") from error
        self._new_tensor = ov.Tensor
        self._request, self._compiled, self._core = request, compiled, core  # let go in this order

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...), which is read where it is, and no longer than until scores are there.

        They are copied: the next call writes over them.
        """
        given = x.contiguous().numpy()
        self._request.set_input_tensor(self._new_tensor(given, shared_memory=True))
        self._request.infer(share_outputs=True)
        return torch.from_numpy(self._request.get_output_tensor(0).data.copy())


def _about(name: str, precision: str, content: bytes) -> dict[str, Any]:
    import openvino as ov  # noqa: PLC0415 (an extra)

    about = {"name": name, "precision": precision, "version": ov.__version__, "digest": digest(content)}
    return about | ({"int8_sums": int8_sums()} if precision == "int8" else {})


def _quantise(task: BackendTask) -> bytes:
    """The size of the graph, the graph, and the weights."""
    import openvino as ov  # noqa: PLC0415 (an extra)

    assert task.calibration is not None
    plain = ov.Core().read_model(onnx_bytes(task))
    batches = [batch.contiguous().numpy() for batch in torch.split(task.calibration, rows_of_call(task))]
    said = io.StringIO()  # progress bars
    os.environ.setdefault("NNCF_CI", "1")  # else NNCF tells its makers that it is used
    with tempfile.TemporaryDirectory() as folder, quiet("nncf"), redirect_stdout(said), redirect_stderr(said):
        import nncf  # noqa: PLC0415 (an extra; it configures its logger when it is imported)

        nncf.set_log_level(logging.ERROR)
        try:
            half = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)  # see int8_sums
            small = nncf.quantize(plain, nncf.Dataset(batches), subset_size=len(batches), advanced_parameters=half)
        except Exception as error:
            raise UnableError(f"NNCF cannot quantise it: {first_line(error)}") from error
        for number, operation in enumerate(small.get_ordered_ops()):
            operation.set_friendly_name(f"op{number}")  # else a count of all operations of this process
        graph, weights = Path(folder) / "small.xml", Path(folder) / "small.bin"
        ov.serialize(small, graph, weights)
        return struct.pack("<Q", graph.stat().st_size) + graph.read_bytes() + weights.read_bytes()
