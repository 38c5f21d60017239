"""What a routed classifier is made of: models smoothed for it, which parts go together, and all of them compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model, count_classes
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.pools import Pool
from smoothcert.engine.smoothed import Smoothed
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Certificate, Predict, Prediction, Procedure
from smoothcert.procedures.routed import own_draws, routed_fingerprint, unreachable

KIND = "routed"


@dataclass(frozen=True, eq=False)
class RoutedCompiled:
    """The router and every member as they are run for inputs of one shape. It never changes."""

    router: Compiled
    members: tuple[Compiled, ...]
    description: dict[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return self.router.shape

    @property
    def device(self) -> torch.device:
        """Where the members run."""
        return self.members[0].device


@dataclass(frozen=True)
class Smoothing:
    """What models that come as they are get smoothed with, the router and all members alike.

    Args:
        noise: of the router; members have it with their own strengths. Default: Gaussian, of the largest strength.
        num_classes: of the members. Default: they are asked.
        seed: of all draws. Default: 0.
        pool: where draws are evaluated. Default: threads of this process.
    """

    noise: Noise | None = None
    num_classes: int | None = None
    seed: int | None = None
    pool: Pool | None = None

    def router(self, model: Model, strengths: Sequence[float]) -> Smoothed:
        """H, with a class for each strength."""
        if not strengths:
            raise InputError("a router chooses between members, got none; give one for each strength")
        noise = Gaussian(max(strengths)) if self.noise is None else self.noise
        return Smoothed(model, max(2, len(strengths)), noise, self.seed or 0, pool=self.pool)

    def members(self, models: Mapping[float, Model], router: Smoothed, example: Tensor | None) -> dict[float, Smoothed]:
        """g_0, g_1, ...; how many classes they have is asked of them with the inputs `example`, (B, ...)."""
        classes = {s: self.num_classes or count_classes(model, example) for s, model in models.items()}
        return {
            s: Smoothed(model, classes[s], router.noise.with_strength(s), router.seed, pool=self.pool)
            for s, model in models.items()
        }

    def refuse(self) -> None:
        """Refuse all of it, because the parts are smoothed already."""
        for name, value in vars(self).items():
            if value is not None:
                raise InputError(f"{name} is that of each Smoothed already; leave it out, or give models as they are")


def all_smoothed(
    router: Smoothed | Model, members: Mapping[float, Smoothed | Model]
) -> tuple[Smoothed, dict[float, Smoothed]]:
    """Parts that are smoothed already; one that is not is refused."""
    found: list[Smoothed] = []
    names = ["the router", *(f"the member {strength}" for strength in members)]
    for name, part in zip(names, [router, *members.values()], strict=True):
        if not isinstance(part, Smoothed):
            raise InputError(
                f"{name} of Routed is a {type(part).__name__} and others are Smoothed; give all as models, or all as "
                "Smoothed"
            )
        found.append(part)
    return found[0], dict(zip(members, found[1:], strict=True))


def check_parts(router: Smoothed, members: Mapping[float, Smoothed]) -> None:
    """Refuse what is not one classifier: other noises, classes or seeds; and what has a noise per input already."""
    for name, part in {"router": router, **{f"the member {s}": member for s, member in members.items()}}.items():
        if part.search is not None or part.weights is not None or part.memory is not None:
            raise InputError(
                f"{name} of Routed must have one noise and one set of weights for all inputs, and no memory; leave "
                "these out"
            )
        if part.seed != router.seed:
            raise InputError(f"{name} of Routed has seed {part.seed} and the router {router.seed}; give all the same")
    if len(members) != router.num_classes or len(members) < 2:
        raise InputError(
            f"the router tells {router.num_classes} strengths apart, got {len(members)} members; give one for each"
        )
    first = next(iter(members.values()))
    for strength, member in members.items():
        if getattr(member.noise, member.noise.strength_name) != strength:
            raise InputError(f"the member for strength {strength} has the noise {member.noise}; give it that strength")
        if router.noise.with_strength(strength) != member.noise:
            raise InputError(
                f"the member {strength} has the noise {member.noise} and the router {router.noise}; take one kind of "
                "noise, norm and grid for all"
            )
        if member.num_classes != first.num_classes:
            raise InputError(
                f"the members have {first.num_classes} and {member.num_classes} classes; take classifiers of the same"
            )


def describe_parts(
    router: Mapping[str, Any], members: Mapping[float, Mapping[str, Any]], noise: Noise, strengths: Sequence[float]
) -> dict[str, Any]:
    """What identifies a routed classifier: its parts' descriptions, and a fingerprint of the whole.

    `noise` is any of the parts'; `strengths` are the router's and then the members'.
    """
    parts = [router, *members.values()]
    backends = sorted({str(part["backend"]["name"]) for part in parts})
    return {
        "kind": KIND,
        "fingerprint": routed_fingerprint([part["fingerprint"] for part in parts], noise.describe(), strengths),
        "device": parts[1]["device"],
        "backend": {"name": "+".join(backends)},
        "router": dict(router),
        "members": {repr(strength): dict(member) for strength, member in members.items()},
    }


@dataclass(frozen=True, kw_only=True)
class OwnPredict(Predict):
    """PREDICT of the router, with draws of its own."""

    def predict(self) -> Any:
        """As ever."""
        return own_draws(super().predict())


def by_member(routes: Mapping[int, Certificate | Prediction]) -> dict[int, list[int]]:
    """The rows that each member was chosen for, given what the router said of each."""
    found: dict[int, list[int]] = {}
    for row in sorted(routes):
        found.setdefault(routes[row].label, []).append(row)
    return dict(sorted(found.items()))


def rows_of(batch: Tensor, rows: Sequence[int]) -> Tensor:
    """Some inputs of a batch."""
    # Not batch[rows]: several threads of torch would wait for each other longer than it takes.
    return batch if len(rows) == len(batch) else torch.stack([batch[row] for row in rows])


def noise_at(member: Smoothed, x: Tensor) -> Noise:
    """The noise of a part at one input, (...)."""
    return member.noise.for_inputs(x[None]).at(x)


@lru_cache(maxsize=1024)
def why_not(procedure: Procedure, noise: Noise) -> str:
    """Why a member can never show what is asked for; "" where it can."""
    return unreachable(procedure, noise)
