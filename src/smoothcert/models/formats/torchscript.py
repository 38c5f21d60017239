"""TorchScript archives: a network with its own code, which torch's interpreter runs."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.foreign import Foreign
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.onnx_export import quiet
from smoothcert.models.formats.reading import check_device, is_torchscript, model_bytes
from smoothcert.models.formats.registry import FORMATS, Format


class ScriptModel(Foreign):
    """A TorchScript module; its code, which nothing in memory spells out, is identified by the file."""

    def __init__(self, network: torch.jit.ScriptModule, digest: str) -> None:
        kinds = {p.dtype for p in (*network.parameters(), *network.buffers()) if p.is_floating_point()}
        super().__init__(takes=kinds.pop() if len(kinds) == 1 else torch.float32)
        self.network, self.digest = network, digest

    def identity(self) -> Any:
        """The file."""
        return self.digest

    def scores(self, x: Tensor) -> Tensor:
        """What the network answers."""
        answer: Tensor = self.network(x)
        return answer


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a TorchScript archive, in evaluation mode. Its code is TorchScript, which torch runs and not Python."""
    content = model_bytes(path)
    try:
        with quiet():  # torch says that TorchScript is old
            network = torch.jit.load(  # type: ignore[no-untyped-call]
                io.BytesIO(content), map_location="cpu"
            ).eval()
    except Exception as error:  # whatever torch raises on bytes that are damaged
        raise InputError(f"{path} is not a whole TorchScript file; copy or save it again") from error
    model = ScriptModel(network, hashlib.sha256(content).hexdigest()).to(check_device(device)).eval()
    return Checkpoint(
        model,
        Signature("torchscript"),
        {},
        fingerprint(model),
        (f"{path.name} is TorchScript: using it runs the code in it, so it must come from somebody you trust",),
    )


FORMATS.add(Format("a TorchScript .pt", is_torchscript, load, runs_code=True), "torchscript")
