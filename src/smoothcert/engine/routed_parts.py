"""What a routed classifier is made of: which parts go together, and all of them compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from smoothcert.core.errors import InputError
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.smoothed import Smoothed


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


def check_parts(router: Smoothed, members: Mapping[float, Smoothed]) -> None:
    """Refuse what is not one classifier: other noises, classes or seeds; and what has a noise per input already."""
    for name, part in {"router": router, **{f"the member {s}": member for s, member in members.items()}}.items():
        if not isinstance(part, Smoothed):
            raise InputError(f"{name} of Routed must be a Smoothed, got {type(part).__name__}; smooth it first")
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
