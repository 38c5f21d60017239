"""The smoothed classifier that a run certified, from the run and the model: the same one, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.datasets import Dataset
from smoothcert.engine import Smoothed
from smoothcert.engine.sigma import described_search
from smoothcert.memory.protocol import RegionMemory
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import Fixed, Procedure, described_procedure
from smoothcert.procedures.identity import flat, identifying
from smoothcert.runs import Run


def certified(
    run: Run,
    model: Model,
    num_classes: int,
    *,
    seed: int | None = None,
    workers: int | None = None,
    calibration: Tensor | None = None,
    memory: RegionMemory | None = None,
    input_range: tuple[float, float] | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> Smoothed:
    """The run's smoothed classifier: its noise (or the search for each input's), backend, batch size and seed.

    `seed` is another one than the run's.

    `calibration` are the inputs that an int8 backend was made with. A model that is not the one certified is refused,
    naming what differs, and so is one without a fingerprint.
    """
    try:
        then = flat(run.config["classifier"])
        batch, backend, named = then["batch"], str(then["backend.name"]), then["fingerprint"]
        seed = int(run.config["seed"]) if seed is None else seed
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{run.path / 'run.json'} does not say which classifier it certified: it was damaged"
        ) from None
    if type(batch) is not int:
        raise InputError(f"{run.path / 'run.json'} has {batch!r} for the batch size: it was damaged")
    smoothed = Smoothed(
        model,
        num_classes,
        described_noise(run.config.get("noise")),
        seed,
        batch_size=batch,
        workers=workers,
        backend=backend,
        calibration=calibration,
        search=described_search(run.config["sigma_search"]) if "sigma_search" in run.config else None,
        memory=memory,
        input_range=input_range,
        input_shape=input_shape,
    )
    now = flat(smoothed.describe())
    for name in identifying(then):
        if now.get(name) != then.get(name):
            raise InputError(
                f"the model is not the one that {run.path} certified: its {name} is {now.get(name)}, certified was "
                f"{then.get(name)}; give that model"
            )
    if named is None:
        raise InputError(f"{run.path} certified a function without a fingerprint: nobody can tell whether it is this")
    return smoothed


def run_otherwise(run: Run, smoothed: Smoothed) -> list[str]:
    """How the same model is run otherwise than it was: scores may be rounded otherwise, and ties fall otherwise."""
    now, then = flat(smoothed.describe()), flat(run.config["classifier"])
    return [
        f"{name} is {now.get(name)}, was {then.get(name)}"
        for name in sorted({*now, *then} - set(identifying(then)))
        if now.get(name) != then.get(name)
    ]


def run_procedure(run: Run) -> Procedure:
    """The procedure of a run; one that cannot be is refused."""
    described = run.config.get("procedure")
    if not isinstance(described, Mapping):
        raise InputError(f"{run.path / 'run.json'} names no procedure: it was damaged")
    return described_procedure(described)


def refuse_soft(run: Run, what: str) -> None:
    """Refuse a run of soft scores: it certifies the highest mean score, and a majority vote may answer otherwise."""
    procedure = run_procedure(run)
    if isinstance(procedure, Fixed) and procedure.bound.beta is not None:
        raise InputError(
            f"{run.path} certified the soft classifier (bound {procedure.bound.name}), and {what} asks for the "
            "majority vote, which is another one; certify with the bound clopper-pearson"
        )


def described_noise(description: object) -> Noise:
    """The noise that describes itself like this; anything else is refused."""
    try:
        kind = NOISES[description["name"]]  # type: ignore[index]
        options: Mapping[str, Any] = {f.name: description[f.name] for f in fields(kind) if f.name in description}  # type: ignore[operator,index]
        noise = kind(**options)
        same = json.loads(json.dumps(noise.describe())) == description
    except (KeyError, TypeError, ValueError, ArithmeticError):
        same = False
    if not same:
        raise InputError(f"{description!r} describes no noise that can be: the run was damaged")
    return noise


def check_data(run: Run, data: Dataset) -> None:
    """Refuse data that are not those that the run certified."""
    about = run.config.get("data")
    then = about.get("fingerprint") if isinstance(about, Mapping) else None
    if then != data.fingerprint:
        raise InputError(
            f"data {data.name} ({data.split}) are not those that {run.path} certified: their fingerprint is "
            f"{data.fingerprint[:12]}..., certified was {str(then)[:12]}...; give the same data"
        )
