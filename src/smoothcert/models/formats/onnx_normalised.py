"""A normalisation put inside of an ONNX graph, as its first two operators."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.models.formats import onnx_graph
from smoothcert.models.formats.checkpoint import Checkpoint
from smoothcert.models.formats.onnx import OnnxModel, load

OLDEST = 7  # version of the operators from which on they broadcast


def normalised(model: OnnxModel, mean: Sequence[float], std: Sequence[float]) -> bytes:
    """The graph of scores(( x - mean) / std), for raw pixels x (B, C, ...)."""
    import onnx  # noqa: PLC0415 (an extra)

    proto = onnx.load_model_from_string(model.content())
    if any(one.domain in ("", "ai.onnx") and one.version < OLDEST for one in proto.opset_import):
        raise InputError(f"the ONNX graph uses operators older than version {OLDEST}; export it again with newer ones")
    graph = proto.graph
    constants = {one.name for one in graph.initializer}
    given = next(value for value in graph.input if value.name not in constants)
    centred, ready, means, stds = (f"{given.name}__smoothcert_{part}" for part in ("centred", "ready", "mean", "std"))
    for inner in onnx_graph.graphs(graph):
        for node in inner.node:
            for place, name in enumerate(node.input):
                if name == given.name:
                    node.input[place] = ready
    axes = max(len(given.type.tensor_type.shape.dim) - 2, 0) or 2
    kind = np.dtype(model.about.takes)
    for name, values in ((means, mean), (stds, std)):
        numbers = np.asarray(values, dtype=kind).reshape(-1, *[1] * axes)  # (C, 1, 1)
        graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    first: list[Any] = [
        onnx.helper.make_node("Sub", [given.name, means], [centred]),
        onnx.helper.make_node("Div", [centred, stds], [ready]),
    ]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*first, *rest])
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def read_again(content: bytes) -> Checkpoint:
    """A graph from memory, through every check that a file goes through."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(content)
        return load(path)
