"""A training on disk: `train.json` (frozen), `state.safetensors`, `log.jsonl`, `curves.png` and `model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.core.files import clear_drafts, lock, read_file, write_whole
from smoothcert.training.state import Epoch


@dataclass(frozen=True)
class Folder:
    """Where the files of one training lie; made by `start`, which takes up an earlier attempt."""

    path: Path

    @property
    def state(self) -> Path:
        """What a killed training goes on from."""
        return self.path / "state.safetensors"

    @property
    def model(self) -> Path:
        """The trained model: there when training is done, never before."""
        return self.path / "model.safetensors"

    @property
    def curves(self) -> Path:
        """The figure."""
        return self.path / "curves.png"

    @property
    def _config(self) -> Path:
        return self.path / "train.json"

    @classmethod
    def check(cls, path: Path, config: Mapping[str, Any]) -> Folder:
        """The folder, if a training with this configuration may go there: nothing is there yet, or the same one.

        Another configuration is refused, naming what differs: trainings are never mixed and never overwritten.
        """
        folder, wanted = cls(path), json.loads(json.dumps(config))
        if not folder._config.exists():
            if path.is_file() or (path.is_dir() and any(not file.name.startswith(".") for file in path.iterdir())):
                raise InputError(f"{path} exists and is not a training; give another --out")
            return folder
        try:
            found = json.loads(read_file(folder._config))
        except (OSError, ValueError, RecursionError):
            raise InputError(f"{folder._config} is not JSON: it was damaged; train into a new folder") from None
        if found != wanted:
            raise InputError(
                f"{path} holds a training with another configuration ({difference(found, wanted)}); "
                "give another --out, or the old settings to resume it"
            )
        return folder

    @classmethod
    @contextmanager
    def start(cls, path: Path, config: Mapping[str, Any]) -> Iterator[Folder]:
        """Make the folder, or take up the same training in it. One process at a time; a second one is refused.

        The lock is on a file that is never replaced nor removed, so that of two processes that make a folder at the
        same moment one goes on. Drafts that a kill left are cleared away under it.
        """
        cls.check(path, config)
        path.mkdir(parents=True, exist_ok=True)
        with (path / ".lock").open("a") as file:
            lock(file, path, busy=f"{path} is being trained by another process; wait for it or stop it")
            folder = cls.check(path, config)  # somebody may have been faster in making it
            clear_drafts(path)
            if not folder._config.exists():
                write_whole(folder._config, json.dumps(config, indent=2).encode())
            yield folder

    def log(self, history: Sequence[Epoch]) -> None:
        """Write `log.jsonl`: one line per epoch."""
        write_whole(self.path / "log.jsonl", "".join(json.dumps(asdict(epoch)) + "\n" for epoch in history).encode())


def difference(old: Any, new: Any, name: str = "it") -> str:
    """The first thing in which two JSON values differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in sorted({*old, *new}) if old.get(key) != new.get(key))
        return difference(old.get(key), new.get(key), key if name == "it" else f"{name}.{key}")
    return f"{name} is {old!r}, now {new!r}"
