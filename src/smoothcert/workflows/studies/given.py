"""Networks that were trained before, for a study: the same recipe, seed and data, wherever they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file, write_whole
from smoothcert.models import load
from smoothcert.models.zoo import model_file
from smoothcert.training import Folder
from smoothcert.workflows.sources import open_data
from smoothcert.workflows.studies.plan import Plan
from smoothcert.workflows.train import training_config

DEPTH = 3  # of folders that are looked into, the given one included
CONFIG = ("format", "recipe", "data", "seed", "device", "init", "routes")  # what a checkpoint says of its training


def take_trained(chosen: Plan, given: Sequence[str | Path], out: Path, data_root: Path | None) -> list[str]:
    """Copy every network of a study that was trained already into its folder; gives what was taken, in words.

    What decides is what a checkpoint says of its training: recipe, seed and data, to the last number, on any device.
    """
    missing = {
        (folder, seed): recipe
        for folder, (recipe, seeds) in chosen.trainings.items()
        for seed in seeds
        if not Folder(out / "trained" / folder / f"seed{seed}").model.exists()
    }
    if not given or not missing:
        return []
    data = open_data(chosen.rows[0].data, "train", root=data_root, called="the data of the study")
    there = list(_checkpoints(given))
    taken = []
    for (folder, seed), recipe in missing.items():
        wanted = _same(training_config(recipe, data, seed=seed, device="cpu"))
        found = next((file for file, details in there if _same(details) == wanted), None)
        if found is not None:
            _copy(found, out / "trained" / folder / f"seed{seed}")
            taken.append(f"{folder}, seed {seed}: {found}")
    if not taken:
        raise InputError(
            f"--trained {given[0]} has no network with the recipe, seed and data of one of this study; the plan names "
            "them: smoothcert study NAME"
        )
    return taken


def _checkpoints(given: Sequence[str | Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for source in given:
        place = model_file(source)
        if not place.exists():
            raise InputError(f"--trained {source} does not exist; give a checkpoint, or a folder of trainings")
        below = (file for depth in range(DEPTH) for file in place.glob("*/" * depth + "*.safetensors"))
        for file in [place] if place.is_file() else sorted(below):
            if file != Folder(file.parent).state:
                yield file, load(file).details


def _same(details: Any) -> dict[str, Any]:
    """Of a training what decides its weights, but for the device: JSON has no tuples."""
    plain: dict[str, Any] = json.loads(json.dumps({key: details.get(key) for key in CONFIG if key != "device"}))
    return plain


def _copy(file: Path, to: Path) -> None:
    """The checkpoint with the configuration of its training, and with its log where that is there."""
    details = load(file).details
    config = {key: details[key] for key in CONFIG if key in details}
    to.mkdir(parents=True, exist_ok=True)
    write_whole(to / "train.json", json.dumps(config, indent=2).encode())
    if (log := file.parent / "log.jsonl").exists():
        write_whole(to / "log.jsonl", read_file(log))
    write_whole(Folder(to).model, read_file(file))  # last: with it the training is done
