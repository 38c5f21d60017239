"""One call of a smoothed classifier: inputs, a compiled model, a pool at work on it, and the answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor

from smoothcert.core.randomness import input_id
from smoothcert.engine.checks import FixedFunctionCheck, SplitCheck
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pools import Pool, Session
from smoothcert.engine.pools.watched import WatchedSession
from smoothcert.engine.sampler import InputProgress, Sampler
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.noise import Noise
from smoothcert.procedures import Conversation
from smoothcert.procedures.certificate import Answered

Result = TypeVar("Result", bound=Answered)
Checked = WeakKeyDictionary[Compiled, dict[int, bool]]
"""Models that were found to be fixed functions, and by number of rows whether blocks may be split into such calls."""
MOST_SHAPES = 4  # of split calls: a backend may need a network of its own for each


@dataclass(frozen=True)
class Drawing:
    """Draws around inputs (B, ...), answered by a compiled model in a pool."""

    compiled: Compiled
    pool: Pool
    noise: Noise
    seed: int
    search: SigmaSearch | None
    checked: Checked

    def check(self, batch: Tensor) -> None:
        """Refuse a model that is not a fixed function of one input, or that the noise cannot be added for."""
        with self.pool.open(self.compiled) as session:
            self._check(session, batch[0], self.noise.for_inputs(batch))

    def noises(self, batch: Tensor) -> list[Noise]:
        """The noise of each input."""
        with self.pool.open(self.compiled) as session:
            return list(self._noises(session, batch))

    def answers(
        self,
        batch: Tensor,
        conversation: Callable[[Noise], Conversation[Result]],
        member_calls: MemberCalls,
        *,
        noises: Sequence[Noise] | None = None,
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Result]]:
        """(row, answer) as soon as each is there, with all that a conversation cannot know filled in."""
        given = [noise.for_inputs(batch[row : row + 1]) for row, noise in enumerate(noises or ())]
        with self.pool.open(self.compiled) as session:
            sampler = self._sampler(session, batch, given[0] if given else self.noise.for_inputs(batch), member_calls)

            def inputs() -> Iterator[InputProgress[Result]]:
                for row, (x, found) in enumerate(zip(batch, given or self._noises(session, batch), strict=True)):
                    noise = found.at(x)
                    # A clone, because a row of a batch would carry the whole batch along to another process.
                    yield InputProgress(row, x.clone(), noise, input_id(x), conversation(noise))

            for progress, answer in sampler.run(inputs(), on_draws):
                yield progress.row, self._filled(progress, answer)

    def conversations(
        self,
        example: Tensor,
        inputs: Iterable[InputProgress[Result]],
        *,
        on_batch: Callable[[int, int], None] = lambda rows, of: None,
    ) -> Iterator[tuple[InputProgress[Result], Result]]:
        """Each conversation that `inputs` bring, with its answer as soon as it is there; until they bring none.

        `example` is an input, (1, ...), to look at the model with. `on_batch` hears of every batch that is handed out:
        how many rows it has, and how many it has room for.
        """
        with self.pool.open(self.compiled) as session:
            watched = WatchedSession(session, on_batch)
            sampler = self._sampler(watched, example, self.noise.for_inputs(example), MemberCalls())
            yield from sampler.run(inputs, lambda _: None)

    def _sampler(self, session: Session, batch: Tensor, noise: Noise, member_calls: MemberCalls) -> Sampler:
        """For inputs like those of the batch, after a look at the model."""
        first_call = self.compiled not in self.checked
        self._check(session, batch[0], noise)
        return Sampler(
            session=session,
            seed=self.seed,
            rows_per_call=self.compiled.rows,
            may_split=lambda rows: not first_call and self._may_split(session, rows),
            member_calls=member_calls,
        )

    def _filled(self, progress: InputProgress[Result], answer: Result) -> Result:
        return dataclasses.replace(
            answer,
            noise=progress.noise.describe(),
            classifier=self.compiled.description,
            seed=self.seed,
            input_id=progress.input_id,
        )

    def _check(self, session: Session, x: Tensor, noise: Noise) -> None:
        # A function may be another one at every call; a private copy is what it was.
        if self.compiled in self.checked and self.compiled.description["fingerprint"] is not None:
            return
        session.map([FixedFunctionCheck(x.clone(), noise, self.seed)])
        self.checked.setdefault(self.compiled, {})

    def _may_split(self, session: Session, rows: int) -> bool:
        """Whether blocks may be split into calls of so many rows; found out once for each number of rows.

        Not at the first call: who asks once would pay more for finding out than is won.
        """
        known = self.checked[self.compiled]
        if self.compiled.executable.rows is not None or (rows not in known and len(known) >= MOST_SHAPES):
            return False
        if rows not in known:
            (known[rows],) = session.map([SplitCheck(rows)])
        return known[rows]

    def _noises(self, session: Session, batch: Tensor) -> Iterable[Noise]:
        bound = self.noise.for_inputs(batch)
        if self.search is None:
            return [bound] * len(batch)
        return self.search.noises(session.map, self.compiled, batch, bound, seed=self.seed)
