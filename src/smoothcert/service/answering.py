"""Questions become answers: admission, one engine for all, the memory, the run, and whoever waits for it.

Nothing here knows HTTP. An answer is decided in the engine's thread and written by one other thread, in the order in
which they were decided: into the memory, into the run, and only then to its clients.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.engine import Routed, Smoothed
from smoothcert.engine.live import LiveEngine, Outcome, Question
from smoothcert.engine.live_routed import RoutedEngine
from smoothcert.memory import Memory
from smoothcert.procedures import ABSTAIN, Certificate, Procedure
from smoothcert.service.answer import Answer
from smoothcert.service.budget import DailyAnswers
from smoothcert.service.errors import AnswerError, ClosingError, TurnedAwayError
from smoothcert.service.journal import Asked, asked_procedure
from smoothcert.service.keys import KeyInUse, KeyRing
from smoothcert.service.limits import Limits
from smoothcert.service.metrics import Metrics
from smoothcert.stats import Tally

CLOSING = "the server is about to end; ask again in a moment"
Votes = dict[str, Tally]


@dataclass(eq=False)
class _Pending:
    """A question under way, and all who wait for its answer: equal questions are one."""

    key: KeyInUse
    asked: Asked
    x: Tensor
    client: str
    since: float
    question: Question | None = None
    tickets: list[Ticket] = field(default_factory=list)
    votes: Votes = field(default_factory=dict)


class Ticket:
    """One client's claim to one answer."""

    def __init__(self, pending: _Pending | None, leave: Callable[[Ticket], None], key: str) -> None:
        self.pending, self._leave, self.key = pending, leave, key
        self.future: Future[Answer] = Future()
        self.on_votes: Callable[[Votes], None] = lambda _: None

    @property
    def votes(self) -> Votes:
        """What was drawn so far, by purpose."""
        return {} if self.pending is None else self.pending.votes

    def leave(self) -> None:
        """Wait no longer. When all have left, no further draw is made."""
        self._leave(self)


class Service:
    """Answers questions about inputs of one shape with one smoothed classifier.

    Args:
        smoothed: the classifier, perhaps a routed one, without a memory: its draws are made here, and inserted here.
        example: an input like those that will come, (1, ...).
        procedure: what counts where a request does not say otherwise.
        keys: the secret keys, each with its run.
        class_names: one per class.
        input_range: inputs outside of it are refused.
        memory: through which answers go; several servers may share it.
        limits: what is allowed.
        metrics: what is counted.
    """

    def __init__(
        self,
        smoothed: Smoothed | Routed,
        example: Tensor,
        procedure: Procedure,
        keys: KeyRing,
        *,
        class_names: Sequence[str],
        input_range: tuple[float, float] | None = None,
        memory: Memory | None = None,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self.smoothed, self.procedure, self.limits, self.metrics = smoothed, procedure, limits, metrics
        self.class_names, self.shape = tuple(class_names), tuple(example.shape[1:])
        self.noise, self.input_range = smoothed.noise.for_inputs(example), input_range
        self._keys, self._memory = keys, memory
        self._budget = DailyAnswers(limits.most_answers)
        self._pending: dict[tuple[str, Asked], _Pending] = {}
        self._lock = threading.Lock()
        self._closing = False
        self.engine: LiveEngine | RoutedEngine = (
            RoutedEngine(smoothed, example, on_batch=metrics.batch)
            if isinstance(smoothed, Routed)
            else LiveEngine(smoothed, example, on_batch=metrics.batch)
        )
        self._example = example
        self._decided: queue.SimpleQueue[tuple[_Pending, Outcome] | None] = queue.SimpleQueue()
        self._recorder = threading.Thread(target=self._record, name="smoothcert-recorder", daemon=True)
        self._recorder.start()
        metrics.watch_queue(lambda: len(self._pending))

    @property
    def key_hash(self) -> str:
        """Of the key in use."""
        return self._keys.current().hash

    @property
    def closing(self) -> bool:
        """No further question is taken."""
        return self._closing

    def prepare(self, procedure: Procedure) -> None:
        """Refuse what could never be answered, and compute what the procedure needs: it may take a second."""
        most = self._most_draws(procedure)
        if most > max(self.limits.draws, self._most_draws(self.procedure)):
            raise InputError(f"n asks for up to {most} draws, and this server makes at most {self.limits.draws}")
        asked, own = (one.describe().get("alpha", 0.0) for one in (procedure, self.procedure))
        if self._memory is not None and asked > own:
            raise InputError(f"alpha must be at most {own:g} here, got {asked:g}: a memory answers others with it, too")
        if isinstance(self.smoothed, Routed):
            self.smoothed.check_reachable(self._example, procedure)
        else:
            next(procedure.certify(self.noise))

    def _most_draws(self, procedure: Procedure) -> int:
        if isinstance(self.smoothed, Routed):
            return self.smoothed.most_draws(procedure)
        return procedure.most_draws()

    def ask(self, x: Tensor, procedure: Procedure, *, client: str) -> Ticket:
        """Take a question about one input, (...), that was checked; a procedure that was prepared.

        Raises TurnedAwayError where there is too much to do, or the client has had enough; ClosingError at the end.
        """
        while not (key := self._keys.current()).take():  # it was changed this very moment, or was the last
            if self._closing:
                raise ClosingError(CLOSING)
        try:
            ticket, new = self._ask(key, x, procedure, client)
        except BaseException:
            key.give_back()
            raise
        if not new:  # only a question that is under way keeps its key open
            key.give_back()
        return ticket

    def rotate(self) -> None:
        """Take a new key into use; open questions are answered under the old one."""
        self._keys.rotate()

    def close(self) -> None:
        """Take no further question, answer those that were taken, and end."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self.engine.close()
        self._decided.put(None)
        self._recorder.join()
        self._keys.close()

    def _ask(self, key: KeyInUse, x: Tensor, procedure: Procedure, client: str) -> tuple[Ticket, bool]:
        """The ticket, and whether the question is a new one."""
        seed = key.seed(procedure, self.limits.settings)
        question = Question(
            x, self.noise.at(x), procedure, seed=seed, client=client,
            on_end=lambda outcome: self._decided.put((pending, outcome)),
            on_votes=lambda votes: self._drawn(pending, votes),
        )  # fmt: skip
        asked = (question.input_id, asked_procedure(procedure.describe()))
        pending = _Pending(key, asked, x, client, time.monotonic(), question)
        with self._lock:
            if self._closing:
                raise ClosingError(CLOSING)
            found = key.journal.find(question.input_id, procedure.describe())
            if found is not None:
                ticket = Ticket(None, self._leave, key.hash)
                ticket.future.set_result(self._answer(*found))
                self.metrics.answers.labels("repeated").inc()
                return ticket, False
            there = self._pending.get((key.hash, asked))
            if there is None:
                if len(self._pending) >= self.limits.queue:
                    raise TurnedAwayError(
                        f"{self.limits.queue} questions wait already; ask again in a moment", retry_after=1.0
                    )
                self._budget.spend(client, (key.hash, asked))
                there = self._pending[(key.hash, asked)] = pending
            ticket = Ticket(there, self._leave, key.hash)
            there.tickets.append(ticket)
        if there is pending:
            self.engine.add(question)
        return ticket, there is pending

    def _leave(self, ticket: Ticket) -> None:
        with self._lock:
            pending = ticket.pending
            if pending is None or ticket not in pending.tickets:
                return
            pending.tickets.remove(ticket)
            if not pending.tickets and pending.question is not None:
                # Who asks the same now begins anew: this one may end at any moment.
                self._pending.pop((pending.key.hash, pending.asked), None)
                pending.question.give_up()

    def _drawn(self, pending: _Pending, votes: Votes) -> None:
        pending.votes = votes
        for ticket in tuple(pending.tickets):
            ticket.on_votes(votes)

    def _record(self) -> None:
        while (decided := self._decided.get()) is not None:
            pending, outcome = decided
            try:
                self._end(pending, outcome)
            finally:
                pending.key.give_back()

    def _end(self, pending: _Pending, outcome: Outcome) -> None:
        """Write down, then tell. What nobody waits for any more is written down if it was decided."""
        answer: Answer | Exception
        try:
            if isinstance(outcome, Certificate):
                answer = self._written(pending, outcome)
            else:
                answer = outcome or AnswerError("the question was given up")
        except Exception as error:  # a disk that is full, a database that is gone: the next one may fare better
            answer = error
        question = (pending.key.hash, pending.asked)
        with self._lock:
            if self._pending.get(question) is pending:
                del self._pending[question]
            tickets, pending.tickets = pending.tickets, []
            asked_again = question in self._pending
        if not isinstance(answer, Answer):
            if (outcome is not None or not pending.votes) and not asked_again:  # else it is paid for (`DailyAnswers`)
                self._budget.give_back(pending.client, question)
            self.metrics.answers.labels("failed" if tickets else "left").inc()
        for ticket in tickets:
            if not ticket.future.set_running_or_notify_cancel():
                continue  # gone this very moment
            if isinstance(answer, Answer):
                ticket.future.set_result(answer)
            else:
                ticket.future.set_exception(answer)

    def _written(self, pending: _Pending, certificate: Certificate) -> Answer:
        found = pending.key.journal.find(certificate.input_id, certificate.procedure)
        if found is not None:  # it was given up, asked again, and decided twice: with the same draws
            return self._answer(*found)
        certificate = replace(certificate, key=pending.key.hash)
        if self._memory is not None:
            certificate = self._memory.insert(pending.x.numpy(), certificate)
        seconds = time.monotonic() - pending.since
        receipt = pending.key.journal.append(pending.x, certificate, seconds)
        self.metrics.answered(
            certified=not certificate.abstained, radius=certificate.radius, draws=certificate.draws, seconds=seconds
        )
        return self._answer(certificate, receipt)

    def _answer(self, certificate: Certificate, receipt: str) -> Answer:
        return Answer(certificate, self._name(certificate.label), receipt, self.smoothed.num_classes)

    def _name(self, label: int) -> str | None:
        return None if label == ABSTAIN else self.class_names[label]

    def late(self, ticket: Ticket, procedure: Procedure, seconds: float) -> Answer:
        """The abstention of a question that was not decided in time. It claims nothing, and is not in the run."""
        self.metrics.answers.labels("late").inc()
        votes = ticket.votes or {"none": Tally.empty(self.smoothed.num_classes)}
        drawn = sum(tally.draws for tally in votes.values())
        certificate = Certificate(
            label=ABSTAIN,
            radius=0.0,
            reason=f"not decided within the deadline of {seconds:g} s: {drawn} draws were made; ask again to go on",
            norm=self.noise.norm,
            p_lower=0.0,
            alpha=float(procedure.describe().get("alpha", 0.5)),
            procedure=procedure.describe(),
            answers=tuple(votes.items()),
            noise=self.noise.describe(),
            classifier=self.engine.description,
            key=ticket.key,
        )
        return Answer(certificate, None, None, self.smoothed.num_classes)
