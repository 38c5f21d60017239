"""What a format gives back: a model that can be run, and what its file says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcert.core.model import Model
from smoothcert.models.networks.specification import Architecture


@dataclass(frozen=True)
class Signature:
    """What is known of a network that was not built here; None: its file does not say.

    Args:
        name: of the format, and of the network where the file names it.
        num_classes: how many scores it answers.
        input_shape: of one input.
    """

    name: str
    num_classes: int | None = None
    input_shape: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary, for `run.json`."""
        shape = None if self.input_shape is None else list(self.input_shape)
        return {"name": self.name, "num_classes": self.num_classes, "input_shape": shape}


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model.

    Args:
        model: in evaluation mode; a module, but for a function from a Python file.
        architecture: what it was built from; of other people's files what these say of their network.
        details: what the file says about it, as JSON gives it back (tuples are lists then, and keys strings).
        fingerprint: `fingerprint(model)`; None where it cannot be identified.
        notes: sentences that whoever loads it should read: that code was run, that it has no fingerprint.
    """

    model: Model
    architecture: Architecture | Signature
    details: dict[str, Any]
    fingerprint: str | None
    notes: tuple[str, ...] = ()
