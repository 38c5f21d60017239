"""A recipe becomes objects, and its values may be changed by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from smoothcert import models
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.noise import NOISES, Gaussian, Noise
from smoothcert.training import DS2, SCHEDULES, Discard, Muon, Schedule
from smoothcert.training.objectives import ATTACKS, OBJECTIVES, Objective
from smoothcert.training.optimizer import OptimizerOf
from smoothcert.training.recipes import Recipe

T = TypeVar("T")
# What names a recipe or says where it is from; and with it, what other options are for.
_WHERE = {"name", "data", "source", "published_acr", "published_in", "tunes"}
_FIXED = _WHERE | {"objective", "schedule", "ds2", "discard", "noise"}


OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "muon": Muon,
}
"""Besides SGD."""


def optimizer_of(recipe: Recipe) -> OptimizerOf | None:
    """The optimiser of the recipe; None for SGD, which is the loop's own."""
    if recipe.optimizer == "sgd":
        return None
    if recipe.optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer must be one of sgd, {', '.join(OPTIMIZERS)}, got {recipe.optimizer!r}")
    kind: Any = OPTIMIZERS[recipe.optimizer]
    return lambda parameters: kind(parameters, lr=recipe.lr, weight_decay=recipe.weight_decay)


def noise_of(recipe: Recipe) -> Noise:
    """The noise that the recipe trains under."""
    if recipe.noise is None:
        return Gaussian(sigma=recipe.sigma)
    return made(NOISES.find(recipe.noise["name"]), {key: v for key, v in recipe.noise.items() if key != "name"})


def objective_of(recipe: Recipe, device: str = "cpu") -> Objective:
    """The objective that the recipe minimises; a classifier that it needs is a checkpoint, and loaded."""
    options = {key: value for key, value in recipe.objective.items() if key != "name"}
    if options.get("attack") is not None:
        attack = {key: value for key, value in options["attack"].items() if key != "name"}
        options["attack"] = made(ATTACKS.find(recipe.objective["attack"]["name"]), attack)
    if options.get("classifier") is not None:
        options["classifier"] = models.load(options["classifier"], device).model
    if options.get("teacher") is not None:
        teacher = models.load(options["teacher"], device)
        options |= {"teacher": teacher.model, "teacher_noise": _trained_under(options["teacher"], teacher)}
    return made(OBJECTIVES.find(recipe.objective["name"]), {"noise": noise_of(recipe)} | options)


def _trained_under(path: str, teacher: models.Checkpoint) -> Gaussian:
    """The noise that a teacher's answers are smoothed with."""
    noise = teacher.details.get("noise")
    if not isinstance(noise, dict) or noise.get("name") != Gaussian.name:
        raise InputError(f"the teacher {path} was not trained under Gaussian noise; train one, as in gaussian-0.25")
    return Gaussian(sigma=noise["sigma"])


def schedule_of(recipe: Recipe) -> Schedule:
    """The schedule of its learning rate."""
    return made(SCHEDULES.find(recipe.schedule["name"]), {k: v for k, v in recipe.schedule.items() if k != "name"})


def change(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with values changed, each as `key=value`: `lr=0.05`, `objective.lam=6`, `schedule=cosine`.

    `objective=NAME` takes another objective, with its defaults; `noise=NAME` another noise, whose strength (half width,
    scale, share kept, ...) is then the number of sigma unless it is set: `noise.half_width=0.5`.

    A value is JSON, or a word. An unknown key is refused, naming the ones there are; and so is a training too short for
    a term that sets in later.
    """
    unsaid = ("optimizer", "ema", "affine", "elastic", "mixed_precision")  # where they are as usual
    values = recipe.to_json() | {name: getattr(recipe, name) for name in unsaid}
    for text in changes:
        key, found, given = text.partition("=")
        if not found:
            raise InputError(f"--set takes key=value, as in --set lr=0.05, got {text!r}")
        try:
            value = json.loads(given)
        except (ValueError, RecursionError):
            value = given
        _put(values, key, value)
    late = values["objective"].get("deferred_until", 0)
    if late and late >= values["epochs"]:
        raise InputError(
            f"lambda would set in after {late:g} epochs, and there are {values['epochs']}; "
            "set objective.deferred_until lower"
        )
    return Recipe.from_json(values)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    allowed = _keys(values)
    if key not in allowed:
        raise InputError(f"--set has no key {key!r}; the keys are {', '.join(sorted(allowed))}")
    kinds: dict[str, Registry[Any]] = {
        "objective": OBJECTIVES,
        "schedule": SCHEDULES,
        "objective.attack": ATTACKS,
        "noise": NOISES,
    }
    if key in kinds:
        kinds[key].find(value)
    if key in ("objective", "schedule"):
        values[key] = {"name": value}
        return
    if key == "noise":
        values[key] = {"name": value, NOISES[value].strength_name: values["sigma"]}
        return
    if key == "objective.attack":  # as strong as the one before, if there was one
        kept = {field.name for field in dataclasses.fields(ATTACKS[value])} & {"eps", "steps"}
        before = values["objective"].get("attack") or {}
        values["objective"]["attack"] = {"name": value} | {name: before[name] for name in kept if name in before}
        return
    *path, last = key.split(".")
    place = values
    for part in path:
        place = place[part]
    old = place.get(last)
    number = isinstance(old, int | float) and not isinstance(old, bool)
    if number and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InputError(f"--set {key} must be a number, got {value!r}")
    if old is not None and not number and not isinstance(value, type(old)):
        raise InputError(f"--set {key} must be like {json.dumps(old)}, got {value!r}")
    place[last] = value


def _keys(values: Mapping[str, Any]) -> set[str]:
    """What may be set: the fields of the recipe, of its objective and attack, and of its schedule."""
    keys = {name for name in values if name not in _FIXED} | {"objective", "schedule", "noise"}
    kinds: dict[str, type[Any]] = {
        "objective": OBJECTIVES.find(values["objective"]["name"]),
        "schedule": SCHEDULES.find(values["schedule"]["name"]),
    }
    if any(field.name == "attack" for field in dataclasses.fields(kinds["objective"])):
        keys.add("objective.attack")
    if values["objective"].get("attack"):
        kinds["objective.attack"] = ATTACKS.find(values["objective"]["attack"]["name"])
    if values.get("noise"):
        kinds["noise"] = NOISES.find(values["noise"]["name"])
    kinds |= {name: kind for name, kind in {"ds2": DS2, "discard": Discard}.items() if values.get(name)}
    for prefix, kind in kinds.items():
        keys |= {
            f"{prefix}.{f.name}"
            for f in dataclasses.fields(kind)
            if f.name not in ("noise", "attack", "offset") and f.metadata.get("described", True)
        }
    return keys


def made(kind: Callable[..., T], options: Mapping[str, Any]) -> T:
    """An object from its options in a recipe."""
    try:
        return kind(**options)
    except TypeError as error:
        raise InputError(f"{kind.__name__} cannot be made of {dict(options)}: {error}") from None
