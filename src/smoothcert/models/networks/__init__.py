"""Networks by name, with their normalisation.

A new architecture is one new file here: every module of this package is imported, and what it registers is found by
`build`, by checkpoints and by the command line.
"""

from importlib import import_module
from pkgutil import iter_modules

from smoothcert.models.networks.normalize import Normalize
from smoothcert.models.networks.registry import build, names, register
from smoothcert.models.networks.specification import Architecture

__all__ = ["Architecture", "Normalize", "build", "names", "register"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
