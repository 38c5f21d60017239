"""Networks by name, with their normalisation.

A new architecture is one new file here: every module of this package is imported, and what it registers is found by
`build`, by checkpoints and by the command line.
"""

from smoothcert.core.registry import import_all
from smoothcert.models.networks.normalize import Normalize
from smoothcert.models.networks.registry import build, names, register
from smoothcert.models.networks.specification import Architecture

__all__ = ["Architecture", "Normalize", "build", "names", "register"]

import_all(__name__, __path__)
