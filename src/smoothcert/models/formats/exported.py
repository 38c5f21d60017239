"""Archives of torch.export (.pt2): a graph of torch's operators and its weights."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.foreign import Foreign
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.onnx_export import quiet
from smoothcert.models.formats.reading import check_device, is_exported, model_bytes
from smoothcert.models.formats.registry import FORMATS, Format

AGAIN = "export it again with torch.export.save"
_LOGGERS = ("torch.export", "torch.export.pt2_archive._package", "torch._export.serde.serialize")
_FORCED, _LOCK = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", threading.Lock()


class ExportedModel(Foreign):
    """The graph of an archive; what its operators are is identified by the file."""

    def __init__(self, network: nn.Module, digest: str, *, takes: torch.dtype, batch: int | None) -> None:
        super().__init__(takes=takes, batch=batch)
        self.network, self.digest = network, digest

    def identity(self) -> Any:
        """The file."""
        return self.digest

    def scores(self, x: Tensor) -> Tensor:
        """What the network answers; of several answers the first."""
        answer = self.network(x)
        scores: Tensor = answer[0] if isinstance(answer, tuple | list) else answer
        return scores

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedModel:
        with warnings.catch_warnings():  # torch warns of itself when its graphs are copied
            warnings.simplefilter("ignore")
            network = copy.deepcopy(self.network, memo)
        return ExportedModel(network, self.digest, takes=self.takes, batch=self.batch).train(self.training)

    def train(self, mode: bool = True) -> ExportedModel:
        """An exported graph has one mode: that in which it was exported."""
        self.training = mode
        for part in self.modules():
            part.training = mode
        return self


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read an archive that torch.export.save wrote. No pickle in it is run, though torch itself would."""
    content = model_bytes(path)
    _refuse_pickles(path, content)
    try:
        with _weights_only(), quiet(*_LOGGERS):
            program = torch.export.load(io.BytesIO(content))
        network = program.module(check_guards=False)
        for part in network.modules():
            part._forward_pre_hooks.clear()  # torch's own, about shapes that are settled here already
            part._forward_hooks.clear()
    except InputError:
        raise
    except Exception as error:  # whatever torch raises on bytes that are damaged, or of another version
        raise InputError(f"{path} cannot be read by torch {torch.__version__}; {AGAIN}") from error
    takes, batch, shape, classes = _interface(path, program)
    digest = hashlib.sha256(content).hexdigest()
    model = ExportedModel(network, digest, takes=takes, batch=batch).to(check_device(device)).eval()
    note = (
        f"{path.name} is a torch.export archive: using it runs the graph in it, so it must come from somebody you trust"
    )
    return Checkpoint(model, Signature("torch.export", classes, shape), {}, fingerprint(model), (note,))


def _refuse_pickles(path: Path, content: bytes) -> None:
    """Refuse what torch would unpickle, or load as a native library, besides plain weights."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if "/aotinductor/" in name or name.endswith((".so", ".cubin")):
                    raise InputError(f"{path} holds compiled code ({name}), which is not run; {AGAIN}")
                if name.endswith("_config.json") and any(
                    folder in name for folder in ("data/weights/", "data/constants/")
                ):
                    entries = json.loads(archive.read(name))["config"].values()
                    if any(one["use_pickle"] or "obj" in Path(one["path_name"]).name for one in entries):
                        raise InputError(
                            f"{path} holds pickled objects, which are never read; {AGAIN}, with tensors only"
                        )
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole torch.export archive; {AGAIN}") from None


@contextmanager
def _weights_only() -> Iterator[None]:
    """torch.export.load falls back on pickle; torch has a switch, for the process, that makes it read weights only."""
    with _LOCK:
        before = os.environ.get(_FORCED)
        os.environ[_FORCED] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_FORCED]
            else:
                os.environ[_FORCED] = before


def _interface(path: Path, program: Any) -> tuple[torch.dtype, int | None, tuple[int, ...] | None, int | None]:
    """Kind of number, batch if it is fixed, shape of one input, and classes."""
    names = set(program.graph_signature.user_inputs)
    given = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(given) != 1 or not isinstance(given[0], Tensor) or not given[0].is_floating_point() or given[0].dim() < 2:
        raise InputError(f"{path} must take one batch of images, a tensor of real numbers (B, ...); {AGAIN}")
    rows, *sizes = given[0].shape
    answers = {node.name: node.meta.get("val") for node in program.graph.nodes}
    scores = answers.get(str(next(iter(program.graph_signature.user_outputs), "")))
    classes = None
    if isinstance(scores, Tensor):
        if scores.dim() != 2:
            raise InputError(f"{path} must answer a score per class, (B, C), but answers {scores.dim()} axes; {AGAIN}")
        classes = scores.shape[1] if isinstance(scores.shape[1], int) else None
    fixed = all(isinstance(size, int) for size in sizes)
    return given[0].dtype, rows if isinstance(rows, int) else None, tuple(sizes) if fixed else None, classes


FORMATS.add(Format("a torch.export .pt2", is_exported, load, runs_code=True), "torch.export")
