"""Bytes of a model file, and what kind of archive they are."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path

import torch

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file

MOST_BYTES = 2**31 - 1  # of a file, as protobuf has it: the largest networks of the papers have a twentieth
MOST_ENTRIES = 100_000  # of an archive


def model_bytes(path: Path) -> bytes:
    """The content of a file; what cannot be read, or is larger than any model, is refused in a sentence."""
    try:
        return read_file(path, most=MOST_BYTES)
    except FileNotFoundError:
        raise InputError(f"the model {path} does not exist; check the path") from None
    except OSError as error:
        raise InputError(f"the model {path} cannot be read: {error.strerror or error}") from None


def entries(path: Path) -> frozenset[str]:
    """Names in a zip archive without its outer folder; none if it is no archive."""
    with suppress(OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()[:MOST_ENTRIES]
            return frozenset(name.partition("/")[2] if "/" in name else name for name in names)
    return frozenset()


def is_torchscript(path: Path) -> bool:
    """A TorchScript archive: it has code and constants."""
    found = entries(path)
    return "constants.pkl" in found and any(name.startswith("code/") for name in found)


def is_exported(path: Path) -> bool:
    """An archive of torch.export: a graph in JSON, of this format or of the one before."""
    found = entries(path)
    return any(name.startswith("models/") and name.endswith(".json") for name in found) or (
        "serialized_exported_program.json" in found
    )


def is_pickled(path: Path) -> bool:
    """What torch.save wrote, as an archive or, before torch 1.6, as a bare pickle."""
    found = entries(path)
    if found:
        return "data.pkl" in found and not is_torchscript(path) and not is_exported(path)
    with suppress(OSError):
        if path.is_file() and path.suffix not in (".safetensors", ".onnx", ".json"):
            with path.open("rb") as file:
                return file.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
    return False


def check_device(device: str | torch.device) -> torch.device:
    """The device, if this machine has it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device must be one that this machine has, such as 'cpu', got {str(device)!r}") from error
    return torch.device(device)
