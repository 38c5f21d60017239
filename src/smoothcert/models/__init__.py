"""Models: the papers' networks by name, ensembles, the file a trained one is kept in, and what identifies it."""

from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.formats.safetensors import Checkpoint, load, save
from smoothcert.models.networks import Architecture, Normalize, build, names, register

__all__ = ["Architecture", "Checkpoint", "Normalize", "build", "fingerprint", "load", "names", "register", "save"]
