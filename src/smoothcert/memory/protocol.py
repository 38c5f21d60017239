"""Answers through a memory: certificates are inserted, predictions are asked of it first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from smoothcert.core.randomness import input_id
from smoothcert.procedures import Certificate, Predict, Prediction, Scope

if TYPE_CHECKING:
    from torch import Tensor


class RegionAnswer(Protocol):
    """What a region says."""

    @property
    def label(self) -> int:
        """Its class."""

    @property
    def radius(self) -> float:
        """How far it reaches around the input."""

    @property
    def region(self) -> int:
        """Its number."""


class RegionMemory(Protocol):
    """What `Smoothed` needs of a memory (`smoothcert.memory.Memory`)."""

    def check_owner(self, classifier: Mapping[str, Any], noise: Mapping[str, Any], shape: Sequence[int]) -> None:
        """Refuse what the memory is not for."""

    def claim(self, classifier: Mapping[str, Any], noise: Mapping[str, Any], shape: Sequence[int]) -> str:
        """The same; and make the memory if it is not there. Returns its id."""

    def answer(self, x: Any) -> RegionAnswer | None:
        """The region that contains x."""

    def insert(self, x: Any, certificate: Certificate) -> Certificate:
        """What may be claimed at x; durable when it returns."""


def insert_in_order(
    memory: RegionMemory, batch: Tensor, certificates: Iterable[tuple[int, Certificate]]
) -> Iterator[tuple[int, Certificate]]:
    """Insert in the order of the inputs, whatever the order in which they were decided.

    Who is inserted first is not cut: so what comes out is a function of the inputs and their order alone.
    """
    waiting: dict[int, Certificate] = {}
    following = 0
    for row, certificate in certificates:
        waiting[row] = certificate
        while following in waiting:
            yield following, memory.insert(batch[following].cpu().numpy(), waiting.pop(following))
            following += 1


def predict_through(
    memory: RegionMemory,
    batch: Tensor,
    procedure: Predict,
    draw: Callable[[list[int]], Iterable[tuple[int, Prediction]]],
    **about: Any,
) -> list[Prediction]:
    """By row, the answers of the regions that inputs lie in, and of `draw` to the rows that lie in none.

    After the draws the memory is asked once more: what was certified meanwhile, by whomever, is answered as certified.
    """
    known = _answered_by(memory, batch, range(len(batch)), procedure, **about)
    drawn = dict(draw([row for row in range(len(batch)) if row not in known]))
    later = _answered_by(memory, batch, drawn, procedure, **about)
    return [answer for _, answer in sorted((drawn | known | later).items())]


def _answered_by(
    memory: RegionMemory,
    batch: Tensor,
    rows: Iterable[int],
    procedure: Predict,
    *,
    seed: int,
    classifier: Mapping[str, Any],
    noise: Mapping[str, Any],
) -> dict[int, Prediction]:
    """The answers of the regions that inputs lie in, by row; without a draw."""
    memory.check_owner(classifier, noise, tuple(batch.shape[1:]))
    out: dict[int, Prediction] = {}
    for row in rows:
        x = batch[row]
        found = memory.answer(x.cpu().numpy())
        if found is not None:
            out[row] = Prediction(
                label=found.label,
                reason=f"region {found.region} of the memory contains it and answers",
                p_value=0.0,
                scope=Scope.MEMORY,
                alpha=procedure.alpha,
                procedure=procedure.describe(),
                noise=noise,
                classifier=classifier,
                seed=seed,
                input_id=input_id(x),
            )
    return out
