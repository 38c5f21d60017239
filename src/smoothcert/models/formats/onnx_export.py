"""A module as a graph of ONNX."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

INPUT = "x"


def exported(model: nn.Module, example: Tensor, *, any_batch: bool) -> bytes:
    """The graph of a module for inputs like `example` (B, ...), for its B rows or for any number; no paths, no lines.

    Through torch.export, which refuses control flow that depends on the data; a trace would follow one branch for ever.
    Raises what the exporter raises.
    """
    shapes = ({0: torch.export.Dim.DYNAMIC},) if any_batch else None
    with quiet("torch.onnx"), torch.no_grad():
        program: Any = torch.onnx.export(
            copy.deepcopy(model),
            (example,),
            dynamo=True,
            input_names=[INPUT],
            output_names=["scores"],
            dynamic_shapes=shapes,
            verbose=False,
        )
        proto = program.model_proto
    # Where files lie and what their lines say are no part of the function.
    for node in proto.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for owner in (proto, proto.graph, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        owner.ClearField("metadata_props")
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


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
