"""ONNX: a network of any framework, as a graph. It is run by ONNX Runtime, or by OpenVINO (`--backend openvino`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.foreign import Foreign
from smoothcert.models.formats import onnx_graph
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.onnx_session import new_session
from smoothcert.models.formats.reading import model_bytes
from smoothcert.models.formats.registry import FORMATS, Format

PACKAGES = ("onnx", "onnxruntime")
_SESSIONS: WeakKeyDictionary[OnnxModel, Callable[[Tensor], Tensor]] = WeakKeyDictionary()


class OnnxModel(Foreign):
    """A graph of ONNX as a classifier. It is its file: the bytes of the graph and of the data files beside it.

    Args:
        graph: the bytes of the file.
        external: the bytes of its data files, by the location that the graph names.
        about: what goes in and comes out.
    """

    has_gradients: ClassVar[bool] = False

    def __init__(self, graph: bytes, external: Mapping[str, bytes], about: onnx_graph.Interface) -> None:
        super().__init__(takes=getattr(torch, about.takes), batch=about.batch)
        self.graph, self.external, self.about, self.precision = graph, dict(external), about, about.precision

    def identity(self) -> Any:
        """The file, and which of its outputs are the scores."""
        return self.graph, tuple(sorted(self.external.items())), self.about.output

    def content(self) -> bytes:
        """The graph in one piece, with all weights and with the scores as its only output."""
        import onnx  # noqa: PLC0415 (an extra)

        model = onnx.load_model_from_string(self.graph)
        if not self.external and len(model.graph.output) == 1:
            return self.graph
        whole = onnx_graph.only_output(onnx_graph.inlined("the graph", model, self.external), self.about.output)
        packed: bytes = whole.SerializeToString(deterministic=True)
        return packed

    def parameter_count(self) -> int:
        """Numbers in its weights."""
        import onnx  # noqa: PLC0415 (an extra)

        graph = onnx.load_model_from_string(self.graph).graph
        real = (one for one in graph.initializer if one.data_type in onnx_graph.WEIGHTS)
        return sum(math.prod(one.dims) for one in real)

    def scores(self, x: Tensor) -> Tensor:
        """By ONNX Runtime; there are no gradients."""
        if x.requires_grad and torch.is_grad_enabled():
            raise InputError("an ONNX model has no gradients; give the torch module that it was exported from")
        if self not in _SESSIONS:
            _SESSIONS[self] = new_session(self.content())
        return _SESSIONS[self](x)


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read an ONNX file. Nothing of it is run by Python; it stays on the CPU, wherever others are.

    Refused are operators of somebody's own, weights outside of its folder, inputs that are no real numbers, and
    outputs that are no scores.
    """
    content = model_bytes(path)
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise InputError(f"reading {path} needs {' and '.join(missing)}; pip install 'smoothcert[onnx]'")
    proto = onnx_graph.parsed(path, content)
    onnx_graph.check_operators(path, proto)
    external = onnx_graph.external_data(path, proto)
    onnx_graph.inlined(path, proto, external)
    about = onnx_graph.interface(path, proto)
    model = OnnxModel(content, external, about).eval()
    try:
        _SESSIONS[model] = new_session(model.content(), quietly=True)
    except Exception as error:  # of the runtime, whose errors have no class in common
        said = " ".join(str(error).split())[:200]
        raise InputError(f"ONNX Runtime cannot load {path} ({said}); export it again, {onnx_graph.WAY_OUT}") from error
    found = Signature("onnx", about.num_classes, about.input_shape)
    return Checkpoint(model, found, {}, fingerprint(model))


FORMATS.add(Format("net.onnx", lambda path: path.suffix == ".onnx", load), "onnx")
