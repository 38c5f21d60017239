"""ONNX Runtime, in float32 or int8."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from smoothcert.core.model import Model
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
from smoothcert.engine.backends.export import ONNX, PACKAGES, for_rows, input_name, onnx_bytes, resized, rows_of_call
from smoothcert.engine.backends.inductor import first_line
from smoothcert.models.formats.onnx_export import quiet
from smoothcert.models.formats.onnx_session import new_session


@backend("onnxruntime", packages=(*ONNX, "onnxruntime"), extra="onnx")
def prepare(task: BackendTask) -> Executable:
    """float32: the scores are the model's, within rounding."""
    content = onnx_bytes(task)
    new_runner = _new_runner(task, content)
    require_agreement(task, new_runner())
    return Executable(new_runner, _about("onnxruntime", task.precision, content))


@backend("onnxruntime-int8", packages=(*ONNX, "onnxruntime"), extra="onnx", int8=True)
def prepare_int8(task: BackendTask) -> Executable:
    """int8 weights (per channel) and activations, by static quantisation: another classifier than the given one."""
    content = artifact(task, "onnxruntime-int8", (*PACKAGES, "onnxruntime"), lambda: _quantise(task))
    new_runner = _new_runner(task, content)
    about = _about("onnxruntime-int8", "int8", content) | {"calibration": calibration_digest(task)}
    return Executable(new_runner, about | {"agreement": vote_agreement(task, new_runner())})


def _new_runner(task: BackendTask, content: bytes) -> Callable[[], Padded]:
    """Makes runners of one session, which any number of threads may use."""
    run = _session(content)
    resize = resized(task, run, lambda rows: _session(for_rows(content, rows), quietly=True))
    return partial(Padded, run, rows_of_call(task), resize)


def _session(content: bytes, *, quietly: bool = False) -> Model:
    try:
        return new_session(content, quietly=quietly)
    except Exception as error:
        raise UnableError(f"ONNX Runtime cannot load it: {first_line(error)}") from error


def _about(name: str, precision: str, content: bytes) -> dict[str, Any]:
    import onnxruntime  # noqa: PLC0415 (an extra)

    about = {"name": name, "precision": precision, "version": onnxruntime.__version__, "digest": digest(content)}
    return about | ({"int8_sums": int8_sums()} if precision == "int8" else {})


def _quantise(task: BackendTask) -> bytes:
    from onnxruntime import quantization as q  # noqa: PLC0415 (an extra)
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    assert task.calibration is not None
    batches = iter(torch.split(task.calibration, rows_of_call(task)))
    model = onnx_bytes(task)
    name = input_name(model)

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Any] | None:
            batch = next(batches, None)
            return None if batch is None else {name: batch.contiguous().numpy()}

    with tempfile.TemporaryDirectory() as folder, quiet("root"):
        plain, ready, small = (Path(folder) / f"{name}.onnx" for name in ("plain", "ready", "small"))
        plain.write_bytes(model)
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
