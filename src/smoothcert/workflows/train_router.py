"""Make a router: label every training input with the strength that suits it best, and train on these labels."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from smoothcert import models
from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file, write_whole
from smoothcert.core.randomness import generator
from smoothcert.datasets import Dataset
from smoothcert.noise import Noise
from smoothcert.procedures.conversation import check_draws
from smoothcert.runs.config import config_digest
from smoothcert.stats.rounding import down
from smoothcert.training import Folder, hold_out
from smoothcert.training.objectives import Objective
from smoothcert.training.recipes import Recipe, find
from smoothcert.training.recipes.build import objective_of
from smoothcert.workflows.inputs import check_fits
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.route_labels import AT_ONCE, NEIGHBOURS, member_radii, noisy_scores, route_labels
from smoothcert.workflows.route_offsets import Offsets, settle_offsets, shift_scores
from smoothcert.workflows.sources import (
    Classifier,
    DataSource,
    ModelSource,
    find_device,
    open_data,
    open_model,
    using_out,
)
from smoothcert.workflows.train import architecture_of, train_recipe

HELD_DRAWS = 64  # noisy copies of each input that training held out


@dataclasses.dataclass(frozen=True)
class TrainedRouter:
    """A router, and how many training inputs each strength was the best for."""

    model: Path
    new: bool  # false: it was trained before
    wanted: Mapping[float, int]
    offsets: Offsets | None = None  # none where training held nothing out

    @property
    def sentence(self) -> str:
        """What the router was taught, in words."""
        each = ", ".join(f"{strength:g} for {count}" for strength, count in self.wanted.items())
        taught = f"best strengths of the {sum(self.wanted.values())} training inputs: {each}"
        if self.offsets is None:
            return taught
        routed, single = (down(value, 4) for value in (self.offsets.routed, self.offsets.single))
        worth = (
            f"mean radius of inputs that training held out, by a rough estimate {routed} routed and {single} with one "
            "strength for all"
        )
        if self.offsets.routed <= self.offsets.single:
            worth += "; so this router always chooses that one: routing does not pay here"
        return f"{taught}; {worth}"


def train_router(
    recipe: Recipe | str,
    members: Mapping[float, ModelSource],
    *,
    out: str | Path,
    data: DataSource | None = None,
    data_root: Path | None = None,
    seed: int = 0,
    draws: int = 16,
    neighbours: int = NEIGHBOURS,
    device: str | None = None,
    save_every: float = 120.0,
    observer: Observer = SILENT,
) -> TrainedRouter:
    """Train a router for `members` by a recipe, into the folder `out`; the same call again goes on with it.

    Every training input is labelled with the strength at which it and inputs like it have the largest radius for the
    right class (`route_labels`); then the router is trained on these labels as any classifier under noise. What must be
    large is the router's own radius, so take a recipe with the objective "consistency", whose sigma is that of the
    router's noise; and few strengths are better than many. Last, inputs that training held out settle how readily it
    leaves the strength that is best for all (`route_offsets`): there, routing is worth no less than that one.

    Args:
        recipe: of the router: its network, its noise, its objective.
        members: by the strength of its noise, the model that will answer there.
        out: the folder of the training.
        data: which both were trained on, split train. Default: the recipe's.
        data_root: where the files of named data sets lie.
        seed: of the training, and of the noise of the labels.
        draws: noisy copies of every input behind its label, for each member.
        neighbours: inputs that each label is settled with, the input itself included. 1: it alone. The more, the more
            often neighbours have one label, and the wider a router can hold it; with all of them it is the same
            everywhere, which is that of the best single strength.
        device, save_every, observer: as of `train_seeds`.
    """
    check_draws("draws", draws)
    check_draws("neighbours", neighbours)
    chosen, where = find(recipe) if isinstance(recipe, str) else recipe, find_device(device)
    objective = objective_of(chosen, where)
    _check(chosen, objective, members)
    source = chosen.data if data is None else data
    dataset = open_data(source, "train", root=data_root, called="--data")
    dataset.require_labels("a router")
    example = dataset.tensors([0])
    opened = {
        strength: open_model(model, device=where, example=example, observer=observer)
        for strength, model in sorted(members.items())
    }
    for member in opened.values():
        check_fits(member, dataset, f"--data {dataset.name}")
    # What cannot be trained is refused before the labels are made, which takes a while.
    if not (Path(out) / "train.json").exists():
        Folder.check(Path(out), {})
    some = np.arange(len(dataset)) % len(opened)
    models.build(architecture_of(chosen, relabelled(dataset, some, list(opened))))
    held = hold_out(len(dataset), chosen.holdout)[1]
    noises = {strength: objective.noise.gridless().with_strength(strength) for strength in opened}
    routes: dict[str, Any] = {"strengths": list(opened), "members": [m.about.fingerprint for m in opened.values()]}
    routes |= {"draws": draws, "neighbours": neighbours, "radii": "votes"}
    about = {"routes": routes, "noise": objective.noise.describe(), "data": dataset.fingerprint, "seed": seed}
    kept = _kept_labels(Path(out), about, len(dataset), len(opened))
    labels = kept
    if labels is None:
        radii = member_radii(opened, noises, dataset, draws=draws, seed=seed, observer=observer)
        labels = route_labels(radii, dataset, neighbours=neighbours, seed=seed)
    with using_out(Path(out)):
        Path(out).mkdir(parents=True, exist_ok=True)
        _keep_labels(Path(out), about, labels)
    settle = partial(_settled, opened, noises, objective.noise, dataset, held, seed, observer) if held else None
    new = train_recipe(
        chosen,
        relabelled(dataset, labels, list(opened)),
        seed=seed,
        out=Path(out),
        device=where,
        save_every=save_every,
        routes=routes,
        finish=settle,
        observer=observer,
    )
    counts = np.bincount(labels, minlength=len(opened)).tolist()
    model = Folder(Path(out)).model
    offsets = models.load(model).details.get("offsets")
    return TrainedRouter(
        model, new, dict(zip(opened, counts, strict=True)), None if offsets is None else Offsets.from_json(offsets)
    )


def _settled(
    members: Mapping[float, Classifier],
    noises: Mapping[float, Noise],
    noise: Noise,
    data: Dataset,
    held: Sequence[int],
    seed: int,
    observer: Observer,
    router: nn.Module,
) -> dict[str, Any]:
    """Shift the scores of a trained router as inputs settle it that training held out; what was found, JSON-able."""
    radii = member_radii(members, noises, data, draws=HELD_DRAWS, seed=seed, rows=held, observer=observer)
    parts = []
    for start in range(0, len(held), AT_ONCE):
        x = data.tensors(held[start : start + AT_ONCE])
        stream = generator(seed, "router", "offsets", start // AT_ONCE)
        parts.append(noisy_scores(router, x, noise, draws=HELD_DRAWS, stream=stream))
    found = settle_offsets(torch.cat(parts), radii, noise.for_inputs(x))
    shift_scores(router, found)
    return {"offsets": dataclasses.asdict(found)}


def _check(recipe: Recipe, objective: Objective, members: Mapping[float, ModelSource]) -> None:
    """Refuse what makes no router, before anything is read."""
    if not objective.classifies:
        raise InputError(
            f"the recipe {recipe.name} trains no classifier, and a router is one; take a consistency recipe"
        )
    if recipe.tunes is not None:
        raise InputError(
            f"the recipe {recipe.name} goes on with a trained model, and a router is trained from the start; take "
            f"{recipe.tunes}"
        )
    if not objective.noise.has_soft_radius:
        raise InputError(f"{objective.noise.name} noise has no soft radius to choose strengths by; take gaussian noise")
    if len(members) < 2:
        raise InputError(f"a router chooses between two strengths or more, got {len(members)}")


def _labels_file(out: Path, about: Mapping[str, Any]) -> Path | None:
    """Where labels of these models and data are kept for whoever goes on; None where a model cannot be identified."""
    if None in about["routes"]["members"]:
        return None
    return out / f".routes-{config_digest(about)}.npy"


def _kept_labels(out: Path, about: Mapping[str, Any], size: int, count: int) -> npt.NDArray[np.int64] | None:
    """Labels that an earlier attempt made; None where there are none, or they cannot be."""
    file = _labels_file(out, about)
    try:
        found = None if file is None else np.load(io.BytesIO(read_file(file)), allow_pickle=False)
    except (OSError, ValueError, InputError):
        return None
    if found is None or found.shape != (size,) or found.dtype != np.int64:
        return None
    return found if int(found.min()) >= 0 and int(found.max()) < count else None


def _keep_labels(out: Path, about: Mapping[str, Any], labels: npt.NDArray[np.int64]) -> None:
    file = _labels_file(out, about)
    if file is not None and not file.exists():
        buffer = io.BytesIO()
        np.save(buffer, labels)
        write_whole(file, buffer.getvalue())


def relabelled(data: Dataset, labels: npt.NDArray[Any], strengths: list[float]) -> Dataset:
    """The same inputs, with numbers of strengths as labels, which are called by these."""
    names = tuple(f"{strength:g}" for strength in strengths)
    return dataclasses.replace(data, labels=labels, num_classes=len(names), class_names=names)
