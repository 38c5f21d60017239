"""Models that come with the package: small, trained here, each with a card and the records that prove its numbers.

A model is a folder beside this file: `model.safetensors` (or `ensemble.json` and its members), `card.json` (what it is
and how it was made) and `run/`, its certificates of test images, packaged ones where there are any, which
`smoothcert verify` checks like any other run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError

PREFIX = "zoo:"
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class ZooModel:
    """A packaged model."""

    name: str
    folder: Path

    @property
    def file(self) -> Path:
        """The checkpoint, or the file of the ensemble."""
        ensemble = self.folder / "ensemble.json"
        return ensemble if ensemble.exists() else self.folder / "model.safetensors"

    @property
    def run(self) -> Path:
        """Its certificates."""
        return self.folder / "run"

    @property
    def card(self) -> dict[str, Any]:
        """What it is and how it was made: about, data, noise, recipe, seed, command, certified_on.

        And `verify_with`: options that an audit needs where images are not packaged.
        """
        content: dict[str, Any] = json.loads((self.folder / "card.json").read_text("utf-8"))
        return content


def zoo() -> dict[str, ZooModel]:
    """All packaged models by name."""
    return {card.parent.name: ZooModel(card.parent.name, card.parent) for card in sorted(FOLDER.glob("*/card.json"))}


def zoo_model(name: str) -> ZooModel:
    """The packaged model of that name; zeros at the end of its sigma may be left out, as in `mnist-0.5`."""
    found = zoo()
    for full, model in found.items():
        if name in (full, full.rstrip("0").rstrip(".")):
            return model
    raise InputError(f"there is no packaged model {name!r}; there are {', '.join(found) or 'none'}")


def model_file(source: str | Path) -> Path:
    """The file that `source` names: a path, or `zoo:NAME` for a packaged model."""
    text = str(source)
    return zoo_model(text.removeprefix(PREFIX)).file if text.startswith(PREFIX) else Path(source)
