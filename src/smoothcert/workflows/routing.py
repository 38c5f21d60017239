"""A router and its members as people bring them: files or models, by strength; and the routed classifier of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, ReadOptions
from smoothcert.engine import Pool, Routed, Smoothed
from smoothcert.noise import Noise
from smoothcert.workflows.choices import NoiseChoice
from smoothcert.workflows.inputs import check_fits, open_both
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.recording import RoutedModelConfigs
from smoothcert.workflows.sources import Classifier, DataSource, ModelSource, open_model

MEMBER = re.compile(r"([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class RoutedModels:
    """What a routed classifier is made of.

    Args:
        router: its class k stands for the k-th strength, ascending.
        members: by the strength of its noise, the model that answers there; several files vote softly.
        router_strength: of the router's noise. Default: as it was trained.
        router_share: of alpha, for the router.
    """

    router: ModelSource
    members: Mapping[float, ModelSource]
    router_strength: float | None = None
    router_share: float = 0.5

    @classmethod
    def of(cls, routed: Routed) -> RoutedModels:
        """Those of a routed classifier that is there."""
        strength = getattr(routed.router.noise, routed.router.noise.strength_name)
        return cls(routed.router.model, routed.models, strength, routed.router_share)


@dataclass(frozen=True)
class Opened:
    """The parts of a routed classifier, opened: the router, and the members by strength, ascending."""

    router: Classifier
    members: Mapping[float, Classifier]

    @property
    def about(self) -> RoutedModelConfigs:
        """What a run says of them."""
        return RoutedModelConfigs(self.router.about, tuple(member.about for member in self.members.values()))

    @property
    def held_out(self) -> set[str]:
        """Inputs that were held out to make an ensemble among them."""
        parts = (self.router, *self.members.values())
        return {name for part in parts for name in part.details.get("held_out") or ()}


def models_of(
    models: Sequence[str | Path], router: str | Path | None, *, strength: float | None = None, share: float = 0.5
) -> ModelSource | RoutedModels:
    """The values of --model, each STRENGTH=MODEL where there is a --router; several of one strength vote softly."""
    if router is None:
        if strength is not None or share != 0.5:
            raise InputError("--router-sigma and --router-share go with --router; give it, or leave them out")
        for model in models:
            if MEMBER.fullmatch(str(model)) and not Path(model).exists():
                raise InputError(
                    f"--model {model} names a strength, which goes with --router; give one, or leave it out"
                )
        return list(models)
    return RoutedModels(router, members_of(models), strength, share)


def members_of(models: Sequence[str | Path]) -> dict[float, list[str]]:
    """The files by strength, ascending, of values STRENGTH=MODEL for two strengths or more."""
    members: dict[float, list[str]] = {}
    for model in models:
        match = MEMBER.fullmatch(str(model))
        if match is None or not 0 < float(match[1]) < math.inf:
            raise InputError(f"with --router every --model is STRENGTH=MODEL, as in 0.25=a.safetensors, got {model}")
        members.setdefault(float(match[1]), []).append(match[2])
    if len(members) < 2:
        raise InputError(f"--router chooses between strengths: give --model for two or more, got {len(members)}")
    return dict(sorted(members.items()))


def open_parts(
    models: RoutedModels,
    example: Tensor | None,
    *,
    device: str | None,
    num_classes: int | None = None,
    observer: Observer = SILENT,
) -> Opened:
    """Every model; a router that does not have one class for each member is refused.

    How many classes a function has is asked of it with the input `example`; without one, `num_classes` says it.
    """
    count = len(models.members)
    of_router = count if example is None else None
    router = open_model(models.router, device=device, num_classes=of_router, example=example, observer=observer)
    if router.num_classes != count:
        raise InputError(
            f"the router tells {router.num_classes} strengths apart, and there are {count} models; give one for each"
        )
    named = tuple(map(str, router.details.get("class_names") or ()))
    strengths = tuple(f"{strength:g}" for strength in sorted(models.members))
    if router.details.get("routes") and named != strengths:
        raise InputError(f"the router was trained for the strengths {', '.join(named)}, got {', '.join(strengths)}")
    members = {
        strength: open_model(source, device=device, num_classes=num_classes, example=example, observer=observer)
        for strength, source in sorted(models.members.items())
    }
    return Opened(router, members)


def open_routed(
    models: RoutedModels,
    data: DataSource,
    split: str,
    *,
    device: str | None,
    root: Path | None,
    read: ReadOptions | None,
    observer: Observer,
) -> tuple[Opened, Dataset]:
    """The models and the data; what does not fit is refused."""
    first = next(source for _, source in sorted(models.members.items()))
    _, dataset = open_both(first, data, split, device=device, root=root, read=read)
    opened = open_parts(models, dataset.tensors([0]), device=device, observer=observer)
    name = data if isinstance(data, str | Path) else dataset.name
    for part in (opened.router, *opened.members.values()):
        check_fits(part, dataset, f"--data {name}")
    return opened, dataset


def build_routed(
    opened: Opened,
    models: RoutedModels,
    noise: Noise | NoiseChoice,
    *,
    seed: int,
    eight_bit: bool,
    pool: Pool | None,
    workers: int | None,
    backend: str,
    batch_size: int | None,
    calibration: Tensor | None,
    input_range: tuple[float, float] | None,
    input_shape: tuple[int, ...],
) -> Routed:
    """The routed classifier: every member with its own strength of the noise, the router with its own."""
    if isinstance(noise, NoiseChoice) and noise.strength is not None:
        raise InputError("--sigma does not go with --router: each --model names its own; give --router-sigma")
    if backend == "auto":
        raise InputError("--backend auto does not go with --router; name the backend")

    def smoothed(part: Classifier, strength: float | None) -> Smoothed:
        return Smoothed(
            part.model,
            part.num_classes,
            _noise(noise, strength, part.details, eight_bit=eight_bit),
            seed,
            device=part.device,
            batch_size=batch_size,
            workers=workers,
            pool=pool,
            backend=backend,
            calibration=calibration,
            input_range=input_range,
            input_shape=input_shape,
        )

    members = {strength: smoothed(part, strength) for strength, part in opened.members.items()}
    router = smoothed(opened.router, models.router_strength)
    return Routed(router, members, router_share=models.router_share)


def _noise(noise: Noise | NoiseChoice, strength: float | None, details: Mapping[str, Any], *, eight_bit: bool) -> Noise:
    if isinstance(noise, NoiseChoice):
        try:
            return replace(noise, strength=strength).resolve(details, eight_bit=eight_bit)
        except InputError as error:
            if strength is None:
                raise InputError(str(error).replace("--sigma", "--router-sigma")) from None
            raise
    return noise if strength is None else noise.with_strength(strength)
