"""What a pool is: a place where a compiled model is run on pieces of work that are handed out.

The sampler does not know where that is. It hands out batches of pieces, keeps as many under way as the pool says, adds
up what comes back, and hands out again what was lost with its worker: the same pieces, so the same votes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.procedures.identity import flat

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

MOST_LOSSES = 100
"""How often one piece of work may be lost before the pool is given up: a worker that it kills would die for ever."""


class WorkLostError(Exception):
    """A worker was lost before it answered. What it was to do had no effect, and can be handed out again."""


class WorkerRefusedError(InputError):
    """A worker does not run the model as the run does: its votes would be those of another classifier."""


class Work(Protocol[Result_co]):
    """What is handed out: self-contained and picklable. Done twice, it comes to the same."""

    def run(self, compiled: Compiled, runner: Model) -> Result_co:
        """Do it, with a runner that is the worker's own."""


class Session(ABC):
    """A pool at work on one compiled model. Close it when nothing more is wanted."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many work at once, now."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """How many works to keep under way, now: enough that no worker waits for the next one."""

    @abstractmethod
    def submit(self, work: Work[Result]) -> Future[Result]:
        """Hand out; the future holds what the work comes to, or `WorkLostError`, or what the model raised."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was not begun, and wait for what was."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def results(self, next_work: Callable[[int], Work[Result] | None]) -> Iterator[tuple[Work[Result], Result]]:
        """Works and what they come to, as they are done, until there is no more.

        `next_work` is told how many works are under way, and gives another one, or None if it has none for now.
        """
        under_way: dict[Future[Result], Work[Result]] = {}
        done: SimpleQueue[Future[Result]] = SimpleQueue()  # so that a result costs the same however many are under way
        losses: Counter[int] = Counter()

        def hand_out(work: Work[Result]) -> None:
            future = self.submit(work)
            under_way[future] = work
            future.add_done_callback(done.put)

        while True:
            while len(under_way) < max(1, self.in_flight) and (work := next_work(len(under_way))) is not None:
                hand_out(work)
            if not under_way:
                return
            future = done.get()
            work = under_way.pop(future)
            try:
                result = future.result()
            except WorkLostError as error:
                losses[id(work)] += 1
                if losses[id(work)] > MOST_LOSSES:
                    raise InputError(
                        f"the pool lost the worker of one batch {MOST_LOSSES} times ({error}); "
                        "look at its workers' logs: a batch that ends its worker may be too large for it"
                    ) from error
                hand_out(work)
                continue
            losses.pop(id(work), None)
            yield work, result

    def map(self, works: Sequence[Work[Result]]) -> list[Result]:
        """What works come to, in their order."""
        waiting = iter(works)
        found = {id(work): result for work, result in self.results(lambda _: next(waiting, None))}
        return [found[id(work)] for work in works]


class Pool(ABC):
    """Where pieces are evaluated. A pool is a plan: it can be shared, pickled, and used by several classifiers."""

    workers: int | None
    """How many work at once; None: what suits the model and the machine."""

    @abstractmethod
    def open(self, compiled: Compiled) -> Session:
        """Workers that hold this model. A worker whose identity is another one is refused."""


def refuse_another_identity(wanted: Mapping[str, Any], found: Mapping[str, Any], worker: str) -> None:
    """Refuse a worker that runs the model otherwise than the run: `wanted` and `found` describe the classifier.

    Also what may only change how scores are rounded counts: votes must not depend on which worker drew them.
    """
    here, there = flat(wanted), flat(found)
    differing = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    if differing:
        name = differing[0]
        raise WorkerRefusedError(
            f"{worker} runs another classifier: its {name} is {there.get(name)}, that of the run is {here.get(name)}; "
            "take workers with the same software and the same kind of processor"
        )
