"""Networks by name, their normalisation, and the one file a trained one is kept in.

A new architecture is one new file here: every module of this package is imported, and what it registers is found by
`build`, by checkpoints and by the command line.
"""

from importlib import import_module
from pkgutil import iter_modules

from smoothcert.architectures.checkpoint import Checkpoint, load, save
from smoothcert.architectures.identity import fingerprint
from smoothcert.architectures.normalize import Normalize
from smoothcert.architectures.registry import build, names, register
from smoothcert.architectures.specification import Architecture

__all__ = ["Architecture", "Checkpoint", "Normalize", "build", "fingerprint", "load", "names", "register", "save"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
