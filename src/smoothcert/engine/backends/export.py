"""A module as ONNX."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from smoothcert.engine.backends.base import BackendTask, UnableError
from smoothcert.engine.backends.cache import artifact
from smoothcert.engine.backends.inductor import first_line

INPUT = "x"
ONNX = ("onnx", "onnxscript")
PACKAGES = ("torch", *ONNX)


def onnx_bytes(task: BackendTask) -> bytes:
    """The model for one shape, as ONNX; the same bytes for the same model, wherever it lives.

    Through torch.export, which refuses control flow that depends on the data; a trace would follow one branch for ever.
    """
    return artifact(task, "onnx", PACKAGES, lambda: _export(task))


def _export(task: BackendTask) -> bytes:
    assert isinstance(task.model, nn.Module)
    try:
        with quiet("torch.onnx"), torch.no_grad():
            program: Any = torch.onnx.export(
                copy.deepcopy(task.model),
                (task.probe(),),
                dynamo=True,
                input_names=[INPUT],
                output_names=["scores"],
                verbose=False,
            )
            proto = program.model_proto
    except Exception as error:  # the exporter raises what it likes, and runs the model's own code
        raise UnableError(f"it cannot be exported to ONNX: {first_line(error)}") from error
    # Where files lie and what their lines say are no part of the function.
    for node in proto.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for owner in (proto, proto.graph, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        owner.ClearField("metadata_props")
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


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


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Keep what a library says about itself to itself; errors still come through as exceptions."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
