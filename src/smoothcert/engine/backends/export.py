"""A module as ONNX."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from smoothcert.core.model import Model
from smoothcert.engine.backends.base import BackendTask, UnableError
from smoothcert.engine.backends.cache import artifact
from smoothcert.engine.backends.inductor import first_line
from smoothcert.models.formats.onnx import OnnxModel
from smoothcert.models.formats.onnx_export import exported

ONNX = ("onnx", "onnxscript")
PACKAGES = ("torch", *ONNX)


def onnx_bytes(task: BackendTask) -> bytes:
    """The model for one shape, as ONNX; the same bytes for the same model, wherever it lives. A file stays as it is."""
    if isinstance(task.model, OnnxModel):
        return task.model.content()
    return artifact(task, "onnx", PACKAGES, lambda: _export(task))


def _export(task: BackendTask) -> bytes:
    assert isinstance(task.model, nn.Module)
    try:
        return exported(task.model, task.probe(), any_batch=False)
    except Exception as error:  # the exporter raises what it likes, and runs the model's own code
        raise UnableError(f"it cannot be exported to ONNX: {first_line(error)}") from error


def rows_of_call(task: BackendTask) -> int:
    """How many rows a graph takes at once: an ONNX file may be made for one number of them."""
    own = task.model.batch if isinstance(task.model, OnnxModel) else None
    return own or task.rows


def resized(task: BackendTask, run: Model, make: Callable[[int], Model]) -> Callable[[int], Model] | None:
    """How the same graph is run in calls of another number of rows: `make` makes it anew if it was exported for one.

    An ONNX file takes any number, or one that nobody can change.
    """
    if not isinstance(task.model, OnnxModel):
        return make
    return None if task.model.batch is not None else lambda _: run


def input_name(content: bytes) -> str:
    """What a graph calls its one input."""
    import onnx  # noqa: PLC0415 (an extra)

    graph = onnx.load_model_from_string(content).graph
    constants = {one.name for one in graph.initializer}
    return next(str(value.name) for value in graph.input if value.name not in constants)


def for_rows(content: bytes, rows: int) -> bytes:
    """The same graph for calls of another number of rows.

    Inputs, outputs and the targets of reshapes name the number; what is said of shapes in between is left out. Nobody
    relies on that: what comes of it is compared with the graph itself before it is used (`SplitCheck`).
    """
    import onnx  # noqa: PLC0415 (an extra)

    model = onnx.load_from_string(content)
    graph = model.graph
    before = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = rows
    graph.ClearField("value_info")
    targets = {node.input[1] for node in graph.node if node.op_type in ("Reshape", "Expand")}
    for constant in graph.initializer:
        if constant.name in targets:
            shape = onnx.numpy_helper.to_array(constant).copy()
            if shape.ndim == 1 and len(shape) and shape[0] == before:
                shape[0] = rows
                constant.CopyFrom(onnx.numpy_helper.from_array(shape, constant.name))
    resized: bytes = model.SerializeToString()
    return resized
