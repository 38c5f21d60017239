"""ONNX Runtime, in float32 or int8."""

from __future__ import annotations

import tempfile
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
from smoothcert.engine.backends.export import INPUT, ONNX, PACKAGES, for_rows, onnx_bytes, quiet
from smoothcert.engine.backends.inductor import first_line


@backend("onnxruntime", packages=(*ONNX, "onnxruntime"), extra="onnx")
def prepare(task: BackendTask) -> Executable:
    """float32: the scores are the model's, within rounding."""
    content = onnx_bytes(task)
    run = _session(content)
    require_agreement(task, run)
    new_runner = partial(Padded, run, task.rows, lambda rows: _session(for_rows(content, rows), quietly=True))
    return Executable(new_runner, _about("onnxruntime", task.precision, content))


@backend("onnxruntime-int8", packages=(*ONNX, "onnxruntime"), extra="onnx", int8=True)
def prepare_int8(task: BackendTask) -> Executable:
    """int8 weights (per channel) and activations, by static quantisation: another classifier than the given one."""
    content = artifact(task, "onnxruntime-int8", (*PACKAGES, "onnxruntime"), lambda: _quantise(task))
    run = _session(content)
    about = _about("onnxruntime-int8", "int8", content)
    about |= {"int8_sums": int8_sums(), "calibration": calibration_digest(task)}
    new_runner = partial(Padded, run, task.rows, lambda rows: _session(for_rows(content, rows), quietly=True))
    return Executable(new_runner, about | {"agreement": vote_agreement(task, run)})


def _session(content: bytes, *, quietly: bool = False) -> Any:
    """A function that any number of threads may call at once: each runs the model by itself, on its own core."""
    import onnxruntime  # noqa: PLC0415 (an extra)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4 if quietly else 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UnableError(f"ONNX Runtime cannot load it: {first_line(error)}") from error

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {INPUT: x.contiguous().numpy()})[0])

    return run


def _about(name: str, precision: str, content: bytes) -> dict[str, Any]:
    import onnxruntime  # noqa: PLC0415 (an extra)

    return {"name": name, "precision": precision, "version": onnxruntime.__version__, "digest": digest(content)}


def _quantise(task: BackendTask) -> bytes:
    from onnxruntime import quantization as q  # noqa: PLC0415 (an extra)
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    assert task.calibration is not None
    batches = iter(torch.split(task.calibration, task.rows))

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Any] | None:
            batch = next(batches, None)
            return None if batch is None else {INPUT: batch.contiguous().numpy()}

    with tempfile.TemporaryDirectory() as folder, quiet("root"):
        plain, ready, small = (Path(folder) / f"{name}.onnx" for name in ("plain", "ready", "small"))
        plain.write_bytes(onnx_bytes(task))
        try:
            quant_pre_process(plain, ready, skip_symbolic_shape=True)
            q.quantize_static(
                ready,
                small,
                Reader(),
                quant_format=q.QuantFormat.QDQ,
                per_channel=True,
                activation_type=q.QuantType.QUInt8,
                weight_type=q.QuantType.QInt8,
                reduce_range=True,  # weights of seven bits: see int8_sums
            )
        except Exception as error:
            raise UnableError(f"ONNX Runtime cannot quantise it: {first_line(error)}") from error
        return small.read_bytes()
