"""Files that hold a model, one file per format; a new format is one file that adds itself to `FORMATS`."""

from smoothcert.core.registry import import_all
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.registry import FORMATS, Format, format_of, load

__all__ = ["FORMATS", "Checkpoint", "Format", "Signature", "format_of", "load"]

import_all(__name__, __path__)
