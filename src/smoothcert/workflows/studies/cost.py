"""About what a study costs: hours of one core of a server, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from smoothcert.datasets import Subset
from smoothcert.training.recipes import Recipe
from smoothcert.training.recipes.recipe import IMAGES
from smoothcert.workflows.studies.certifying import procedure_of
from smoothcert.workflows.studies.plan import Member, Plan, Row, shares
from smoothcert.workflows.studies.study import Certification

TO_TRAIN_ON = IMAGES | {"digits": 1_297, "mnist5k": 4_000}
TO_CERTIFY = {
    "mnist": 10_000,
    "mnist-binary": 10_000,
    "cifar10": 10_000,
    "svhn": 26_032,
    "imagenet": 50_000,
    "digits": 500,
    "mnist5k": 1_000,
}
UNKNOWN_RATE = 1000.0  # noisy inputs per second and core through a network that nobody measured
FORWARD = 3.0  # times as fast as a step of training


@dataclass(frozen=True)
class Cost:
    """Core-hours to train all networks of a study, and to certify its rows; None where nobody knows."""

    training: float | None
    certifying: float | None

    @property
    def total(self) -> float | None:
        """Of both."""
        return None if self.training is None or self.certifying is None else self.training + self.certifying


def cost(plan: Plan) -> Cost:
    """What the study costs at its scale, from the sizes of its data sets: nothing is opened."""
    data = plan.rows[0].data
    trainings = [(recipe, len(seeds)) for recipe, seeds in plan.trainings.values()]
    trainings += [(router.recipe, 1) for router in plan.routers if router.recipe is not None]
    trained = [
        None if (hours := training_hours(recipe, TO_TRAIN_ON.get(data))) is None else hours * count
        for recipe, count in trainings
    ]
    size = TO_CERTIFY.get(data)
    certified = None if size is None else sum(_seconds_of_rows(plan, size)) / 3600
    known = [hours for hours in trained if hours is not None]
    return Cost(sum(known) if len(known) == len(trained) else None, certified)


def training_hours(recipe: Recipe, images: int | None) -> float | None:
    """Of one training with so many images, or as many as the data of the recipe have."""
    return recipe.core_hours if images is None else recipe.core_hours_on(images)


def certifying_seconds(members: Sequence[Member], row: Row, size: int) -> float:
    """Of a row whose members are these, on its part of so many inputs; at most, if its procedure may stop early."""
    how = row.certification
    draws = float(_most_draws(how))
    if how.search is not None:  # a step goes forward and back
        draws += FORWARD * (how.search.steps or 0) * (how.search.draws or 1)
    return inputs_of(row, size) * draws / _draws_per_second(members)


@cache
def _most_draws(how: Certification) -> int:
    return procedure_of(how).resolve().most_draws()


def inputs_of(row: Row, size: int) -> int:
    """How many of so many inputs the row is certified on."""
    how = row.certification
    return len(Subset(how.start, how.every, how.limit).indices(size))


def _seconds_of_rows(plan: Plan, size: int) -> list[float]:
    shared = [certifying_seconds(one.members, one.row, size) for one in plan.passes()]
    return shared + [certifying_seconds(row.members, row, size) for row in plan.rows if not shares(row)]


def _draws_per_second(members: Sequence[Member]) -> float:
    """About how many noisy inputs one core puts through all members in a second."""
    rates = [None if member.recipe is None else member.recipe.rate for member in members]
    return 1 / sum(1 / (UNKNOWN_RATE if rate is None else FORWARD * rate) for rate in rates)
