"""Models: the papers' networks by name, ensembles, the files that people bring, and what identifies a model."""

from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.foreign import Foreign, OwnPrecision, has_gradients, in_own_precision, precision_of
from smoothcert.models.formats import FORMATS, Checkpoint, Format, Signature
from smoothcert.models.formats.safetensors import load, save
from smoothcert.models.networks import Architecture, Normalize, build, names, register

__all__ = [
    "FORMATS",
    "Architecture",
    "Checkpoint",
    "Foreign",
    "Format",
    "Normalize",
    "OwnPrecision",
    "Signature",
    "build",
    "fingerprint",
    "has_gradients",
    "in_own_precision",
    "load",
    "names",
    "precision_of",
    "register",
    "save",
]
