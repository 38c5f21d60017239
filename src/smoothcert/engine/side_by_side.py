"""Several classifiers of the same members, certified from one stream of noise and one evaluation of each member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import input_id
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.input_progress import InputProgress
from smoothcert.engine.inputs import Inputs
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.smoothed import Smoothed
from smoothcert.noise import Noise
from smoothcert.procedures import Ask, Certificate, Conversation, FixedDraws, Procedure, answered
from smoothcert.stats import Tally


def certifying_each(
    several: Smoothed,
    x: Inputs,
    procedure: Procedure,
    descriptions: Sequence[Mapping[str, Any]],
    *,
    on_draws: Callable[[int], None] = lambda _: None,
    member_calls: MemberCalls | None = None,
    compiled: Compiled | None = None,
) -> Iterator[tuple[int, tuple[Certificate, ...]]]:
    """(row, a certificate of each classifier) as soon as they are there.

    Each certificate is what its classifier gets alone with this seed, to the last vote: the draws are the same ones,
    and a draw's scores are those of the same runners. For classifiers that ask members about some rows only
    (`adaptive`) that holds where `rows_are_independent`.

    Args:
        several: smooths `ensembles.SideBySide` of the classifiers; its `num_classes` are those of all together.
        x: inputs (B, ...).
        procedure: takes the same draws whatever they say: `Fixed`.
        descriptions: of each classifier, what identifies it when it is run alone.
        on_draws, compiled: as of `Smoothed.certifying`.
        member_calls: counts what each classifier asks of its members, one after another, as if it were alone.
    """
    require_fixed_draws(procedure)
    batch = several.as_batch(x)
    compiled = several._current(batch, compiled)
    drawing = several._drawing(compiled)

    def begin(row: int, x: Tensor, noise: Noise) -> InputProgress[Certificate]:
        return _SharedDraws(row, x, noise, [procedure.certify(noise) for _ in range(compiled.classifiers)])

    calls = MemberCalls() if member_calls is None else member_calls
    for progress, _ in drawing.held(batch, begin, calls, on_draws=on_draws):
        assert isinstance(progress, _SharedDraws)
        pairs = zip(progress.found, descriptions, strict=True)
        noise, seed = progress.noise, several.seed
        found = (drawing.filled(one, noise, progress.input_id, seed, description) for one, description in pairs)
        yield progress.row, tuple(found)


def rows_are_independent(several: Smoothed, x: Inputs) -> bool:
    """Whether a draw's scores are the same, to the last bit, whatever draws share its batch; found on the first x."""
    batch = several.as_batch(x)
    return several._drawing(several.compile(batch.shape[1:])).packs(batch[0])


def require_fixed_draws(procedure: Procedure) -> None:
    """Refuse procedures whose draws depend on what earlier ones said: classifiers could not share them."""
    if not isinstance(procedure, FixedDraws):
        raise InputError(
            f"--each takes the same draws for all classifiers, and --procedure {procedure.name} stops where one of "
            "them is decided; take fixed"
        )


class _SharedDraws(InputProgress[Certificate]):
    """One input, and a conversation about it for each classifier. All ask for the same draws."""

    def __init__(self, row: int, x: Tensor, noise: Noise, conversations: Sequence[Conversation[Certificate]]) -> None:
        super().__init__(row, x, noise, input_id(x), conversations[0])
        self._others = conversations[1:]
        self._asks: list[Ask] = []  # of the others
        self._said: list[list[tuple[str, Tally]]] = [[] for _ in conversations]
        self.found: tuple[Certificate, ...] = ()
        """A certificate of each classifier, when all is said."""

    def hear(self) -> Certificate | None:
        """Tell every conversation what its classifier's votes are."""
        assert self.tally is not None
        asks = [self.ask, *(self._asks or [next(one) for one in self._others])]
        next_asks: list[Ask] = []
        found: list[Certificate] = []
        tallies = split(self.tally, len(asks))
        for said, one, ask, tally in zip(self._said, [self.conversation, *self._others], asks, tallies, strict=True):
            assert ask == self.ask, "classifiers that share draws ask for the same ones"
            said.append((ask.purpose, answered(ask, tally)))
            try:
                next_asks.append(one.send(tally))
            except StopIteration as stop:
                found.append(replace(stop.value, answers=tuple(said)))
        if next_asks:
            self._asks = next_asks[1:]
            self.request(next_asks[0])
            return None
        self.found = tuple(found)
        return found[0]


def split(tally: Tally, classifiers: int) -> list[Tally]:
    """The tallies of several classifiers, which stand one after another in one."""
    parts = [tally.votes, tally.score_sums, tally.score_squares]
    width = len(tally.votes) // classifiers
    return [
        Tally(*(None if part is None else part[start : start + width] for part in parts))  # type: ignore[arg-type]
        for start in range(0, len(tally.votes), width)
    ]
