"""What a worker elsewhere does: it holds compiled models, and does works with them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.plugins import load_contents
from smoothcert.engine.pools.base import WorkerRefusedError, refuse_another_identity
from smoothcert.engine.pools.shipping import Parcel, Reply, software

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

UNNAMED = "this worker"  # as whoever unpickles a compiled model calls itself


class ModelHolder:
    """The models of one worker, by key, with the runner of each. One thread uses it.

    Args:
        place: what the worker is called, for people.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._models: dict[int, tuple[Compiled, Model]] = {}

    def hello(self) -> bytes:
        """Who it is."""
        return Reply(self.place).packed()

    def hold(self, key: int, wanted: Mapping[str, str], parcel: bytes) -> bytes:
        """Take a model. One that is another classifier here than where it came from is refused by name."""
        try:
            refuse_another_identity(wanted, software(), self.place)  # before what only the same software can read
            opened: Parcel = pickle.loads(parcel)
            load_contents(opened.plugins)
            compiled = opened.unpack()
            torch.set_num_threads(compiled.threads)
            self._models[key] = compiled, compiled.executable.new_runner()
        except WorkerRefusedError as error:
            return Reply(error=WorkerRefusedError(str(error).replace(UNNAMED, self.place, 1))).packed()
        except Exception as error:
            said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            return Reply(
                error=WorkerRefusedError(
                    f"{self.place} cannot run the model ({said}); install there what the model needs, or leave it out"
                )
            ).packed()
        return Reply().packed()

    def run(self, key: int, work: bytes) -> bytes:
        """Do a work with a model that is held."""
        compiled, runner = self._models[key]
        try:
            if torch.get_num_threads() != compiled.threads:
                torch.set_num_threads(compiled.threads)
            return Reply(pickle.loads(work).run(compiled, runner)).packed()
        except Exception as error:
            if not isinstance(error, InputError):
                error.add_note(f"In {self.place}:\n" + "".join(traceback.format_tb(error.__traceback__)))
            return Reply(error=error).packed()

    def drop(self, key: int) -> bytes:
        """Let go of a model."""
        self._models.pop(key, None)
        return Reply().packed()
