"""One call of a smoothed classifier: inputs, a compiled model, a pool at work on it, and the answers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import input_id
from smoothcert.engine.checks import FixedFunctionCheck, PackingCheck, SplitCheck
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.input_progress import InputProgress
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pools import Pool, Session
from smoothcert.engine.pools.watched import WatchedSession
from smoothcert.engine.sampler import Sampler
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.engine.weights import WeightSearch
from smoothcert.models.ensembles import Ensemble
from smoothcert.noise import Noise
from smoothcert.procedures import Conversation
from smoothcert.procedures.certificate import Answered

Result = TypeVar("Result", bound=Answered)
SMALLEST_CALL = 16  # rows; smaller calls cost more than they save


@dataclass
class Found:
    """What was found out about a model that is a fixed function.

    Args:
        packed: whether draws of several requests may share a call; None: not known yet.
        sizes: by number of rows, whether calls of so many give the same scores to the last bit.
        wanted: numbers of rows that would have suited once: what is wanted again is worth a look.
    """

    packed: bool | None = None
    sizes: dict[int, bool] = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)


Checked = WeakKeyDictionary[Compiled, Found]
"""Models that were found to be fixed functions."""


@dataclass(frozen=True)
class Drawing:
    """Draws around inputs (B, ...), answered by a compiled model in a pool."""

    compiled: Compiled
    pool: Pool
    noise: Noise
    seed: int
    search: SigmaSearch | None
    weighing: WeightSearch | None
    checked: Checked

    def check(self, batch: Tensor) -> None:
        """Refuse a model that is not a fixed function of one input, or that the noise cannot be added for."""
        with self.pool.open(self.compiled) as session:
            self._check(session, batch[0], self.noise.for_inputs(batch))

    def packs(self, x: Tensor) -> bool:
        """Whether a row gets the same scores, to the last bit, at any place and in any company: on draws around x."""
        with self.pool.open(self.compiled) as session:
            (found,) = session.map([PackingCheck(x.clone(), self.noise.for_inputs(x[None]), self.seed)])
        return bool(found)

    def noises(self, batch: Tensor) -> list[Noise]:
        """The noise of each input."""
        with self.pool.open(self.compiled) as session:
            return list(self._noises(session, batch))

    def weights(self, batch: Tensor) -> list[tuple[float, ...]]:
        """The weights of the ensemble at each input, where they are its own."""
        with self.pool.open(self.compiled) as session:
            pairs = zip(batch, self._noises(session, batch), strict=True)
            return [found for x, noise in pairs if (found := self._weights(x, noise)) is not None]

    def answers(
        self,
        batch: Tensor,
        conversation: Callable[[int, Noise], Conversation[Result]],
        member_calls: MemberCalls,
        *,
        noises: Sequence[Noise] | None = None,
        weights: Sequence[Sequence[float]] | None = None,
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Result]]:
        """(row, answer) as soon as each is there, with all that a conversation cannot know filled in.

        `conversation` begins the one about a row, under its noise.
        """

        def begin(row: int, x: Tensor, noise: Noise) -> InputProgress[Result]:
            own = self._weights(x, noise) if weights is None else tuple(weights[row])
            return InputProgress(row, x, noise, input_id(x), conversation(row, noise), weights=own)

        for progress, answer in self.held(batch, begin, member_calls, noises=noises, on_draws=on_draws):
            filled = self.filled(answer, progress.noise, progress.input_id, self.seed)
            yield progress.row, dataclasses.replace(filled, weights=progress.weights)

    def held(
        self,
        batch: Tensor,
        begin: Callable[[int, Tensor, Noise], InputProgress[Result]],
        member_calls: MemberCalls,
        *,
        noises: Sequence[Noise] | None = None,
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[InputProgress[Result], Result]]:
        """The conversations that are begun about each input, and their answers, as soon as each is there."""
        given = [noise.for_inputs(batch[row : row + 1]) for row, noise in enumerate(noises or ())]
        with self.pool.open(self.compiled) as session:
            sampler = self._sampler(session, batch, given[0] if given else self.noise.for_inputs(batch), member_calls)

            def inputs() -> Iterator[InputProgress[Result]]:
                for row, (x, found) in enumerate(zip(batch, given or self._noises(session, batch), strict=True)):
                    noise = found.at(x)
                    # A clone, because a row of a batch would carry the whole batch along to another process.
                    yield begin(row, x.clone(), noise)

            yield from sampler.run(inputs(), on_draws)

    def conversations(
        self,
        example: Tensor,
        inputs: Iterable[InputProgress[Result]],
        *,
        on_batch: Callable[[int, int], None] = lambda rows, of: None,
    ) -> Iterator[tuple[InputProgress[Result], Result]]:
        """Each conversation that `inputs` bring, with its answer as soon as it is there; until they bring none.

        `example` are inputs, (B, ...), to look at the model with: two, if several will be asked about at once.
        `on_batch` hears of every batch that is handed out how many rows it has, and how many it has room for.
        """
        if self.weighing is not None:
            raise InputError("conversations of others cannot have weights per input; give the ensemble fixed weights")
        with self.pool.open(self.compiled) as session:
            watched = WatchedSession(session, on_batch)
            sampler = self._sampler(watched, example, self.noise.for_inputs(example), MemberCalls())
            yield from sampler.run(inputs, lambda _: None)

    def _sampler(self, session: Session, batch: Tensor, noise: Noise, member_calls: MemberCalls) -> Sampler:
        """For inputs like those of the batch, after a look at the model."""
        first_call = self.compiled not in self.checked
        self._check(session, batch[0], noise)
        # Weights of its own are another function for every input.
        packed = self.weighing is None and self._packed(session, batch, noise, first_call=first_call)
        return Sampler(
            session=session,
            seed=self.seed,
            rows_per_call=self.compiled.rows,
            unit=self.compiled.unit,
            packed=packed,
            call_rows=lambda rows, may_look: self._call_rows(session, rows, may_look=may_look and not first_call),
            num_classes=self.compiled.num_classes,
            ahead=packed and not isinstance(self.compiled.model, Ensemble),  # it is counted what members are asked
            member_calls=member_calls,
        )

    def filled(
        self, answer: Result, noise: Noise, input_id: str, seed: int, classifier: Mapping[str, Any] | None = None
    ) -> Result:
        """The answer with what a conversation cannot know; of the compiled classifier, if of no other."""
        return dataclasses.replace(
            answer,
            noise=noise.describe(),
            classifier=self.compiled.description if classifier is None else classifier,
            seed=seed,
            stream=noise.stream_kind(self.compiled.device),
            input_id=input_id,
        )

    def _check(self, session: Session, x: Tensor, noise: Noise) -> None:
        # A function may be another one at every call; a private copy is what it was.
        if self.compiled in self.checked and self.compiled.description["fingerprint"] is not None:
            return
        session.map([FixedFunctionCheck(x.clone(), noise, self.seed)])
        self.checked.setdefault(self.compiled, Found())

    def _packed(self, session: Session, batch: Tensor, noise: Noise, *, first_call: bool) -> bool:
        """Whether draws of several requests may share a call; found out once.

        Of one input there is one request at a time: only several workers gain from cutting it as it suits them, and not
        at the first call, because who asks once would pay more for finding out than is won.
        """
        compiled, found = self.compiled, self.checked[self.compiled]
        if compiled.device.type != "cpu":
            return True
        if found.packed is None and (len(batch) > 1 or (compiled.workers > 1 and not first_call)):
            (found.packed,) = session.map([PackingCheck(batch[0].clone(), noise, self.seed)])
        return bool(found.packed)

    def _call_rows(self, session: Session, rows: int, *, may_look: bool) -> int:
        """In a call of how many rows so many may be run; whether a number will do is found out once.

        Not the first time: who asks once would pay more for finding out than is won.
        """
        compiled, found = self.compiled, self.checked[self.compiled]
        if not compiled.padded:
            return rows
        size, sizes = max(SMALLEST_CALL, rows), found.sizes
        if may_look and size < compiled.rows and size not in sizes and len(sizes) < compiled.executable.sizes:
            if size in found.wanted:
                (sizes[size],) = session.map([SplitCheck(size)])
            found.wanted.add(size)
        return min([size for size, same in sizes.items() if same and size >= rows], default=compiled.rows)

    def _noises(self, session: Session, batch: Tensor) -> Iterable[Noise]:
        bound = self.noise.for_inputs(batch)
        if self.search is None:
            return [bound] * len(batch)
        return self.search.noises(session.map, self.compiled, batch, bound, seed=self.seed)

    @cached_property
    def _members(self) -> list[nn.Module]:
        """A copy: members are perturbed in place while weights are looked for, and workers run the others."""
        assert isinstance(self.compiled.model, nn.Module)
        found: nn.ModuleList = copy.deepcopy(self.compiled.model).members  # type: ignore[assignment]
        return list(found)

    def _weights(self, x: Tensor, noise: Noise) -> tuple[float, ...] | None:
        """Of one input; None where all have those of the ensemble."""
        if self.weighing is None:
            return None
        return tuple(self.weighing.weights(self._members, x, noise, self.seed, self.compiled.threads))
