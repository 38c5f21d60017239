"""What travels between a pool and its workers elsewhere, as bytes: models, works, and what they come to."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import smoothcert
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import Plugin, plugin_contents

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Pack = Callable[[Any], bytes]
_ARRAYS = {torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool}


@dataclass(frozen=True)
class Parcel:
    """A compiled model on its way, and what must be there before it can be unpacked.

    Args:
        model: the `Compiled`, pickled.
        plugins: files that its classes may come from, with what is in them.
        matmul: precision of float32 products, which is a setting of a process.
        deterministic: whether torch is held to deterministic kernels, another one.
    """

    model: bytes
    plugins: tuple[tuple[Plugin, bytes], ...]
    matmul: str
    deterministic: bool

    def unpack(self) -> Compiled:
        """The model, compiled again; refused if that gives another classifier (`WorkerRefusedError`)."""
        torch.set_float32_matmul_precision(self.matmul)
        torch.use_deterministic_algorithms(self.deterministic)
        compiled: Compiled = pickle.loads(self.model)
        return compiled


@dataclass(frozen=True)
class Reply:
    """What a worker answers: a result, or what was raised."""

    result: Any = None
    error: Exception | None = None

    def packed(self) -> bytes:
        """As bytes; an error that does not survive the way is replaced by what it said."""
        if self.error is not None:
            try:
                pickle.loads(pickle.dumps(self.error))
            except Exception:
                said = RuntimeError(f"{type(self.error).__name__}: {self.error}")
                return pack(Reply(error=said))
        return pack(self)

    @staticmethod
    def unpacked(packed: bytes) -> Reply:
        """What arrived; what cannot be read is an error too."""
        try:
            reply: Reply = pickle.loads(packed)
        except Exception as error:
            return Reply(error=InputError(f"what a worker answered cannot be read ({type(error).__name__}: {error})"))
        return reply


def parcel_of(compiled: Compiled, pack_model: Pack) -> Parcel:
    """A model on its way to a worker."""
    if compiled.device.index:
        raise InputError(
            f"the model is on {compiled.device}, one certain GPU, and a pool of workers gives each its own; "
            f"move it to {compiled.device.type}, or take pool=Threads()"
        )
    try:
        model = pack_model(compiled)
    except Exception as error:
        raise InputError(
            f"the model cannot be sent to another process ({type(error).__name__}: {error}); define it in a module "
            "that can be imported, not inside a function"
        ) from error
    return Parcel(
        model,
        plugin_contents(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )


@cache
def software() -> dict[str, str]:
    """What must be the same wherever votes are drawn: this package to the letter, and what it draws and adds with."""
    digest, root = hashlib.sha256(), Path(smoothcert.__file__).parent
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}:".encode() + content)
    return {
        "smoothcert": f"{smoothcert.__version__} with sources {digest.hexdigest()[:12]}",
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "torch": torch.__version__,
        "numpy": version("numpy"),
    }


def tensor_as_array(value: Any) -> Any:
    """How pickle takes a tensor as an array, many times faster than torch's own way, and from any device."""
    if type(value) is not Tensor or value.dtype not in _ARRAYS or value.requires_grad or value.layout != torch.strided:
        return NotImplemented
    return _from_array, (value.cpu().numpy(),)


def _from_array(array: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(array) if array.ndim else torch.tensor(array)


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return tensor_as_array(value)


def pack(value: Any) -> bytes:
    """A work or a reply as bytes, for `pickle.loads`."""
    buffer = io.BytesIO()
    _Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()
