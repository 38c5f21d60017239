"""One engine for questions that come while it works: all share its batches, each is answered when it is decided.

A conversation is held in turns of a bounded number of draws. After a turn it stands in line again, behind a turn of
every other client who waits: so whoever asks for much does not keep others waiting, and whoever is gone is noticed.
Draws are those of one uninterrupted conversation, to the last one: what is cut is an ask, never the noise of a draw.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import BLOCK, input_id
from smoothcert.engine.input_progress import InputProgress
from smoothcert.engine.smoothed import Smoothed
from smoothcert.noise import Noise
from smoothcert.procedures import ABSTAIN, Ask, Certificate, Conversation, Procedure
from smoothcert.procedures.certificate import Answered
from smoothcert.stats import Tally

TURN = 2048
"""Draws of a turn, about: small against what a whole conversation may take, large against what a turn costs."""


Outcome = Certificate | Exception | None
"""Of a question: the answer, what went wrong, or None, where it was given up."""


class Question:
    """One input and what is asked about it. Made by anybody, held by the engine, given up by anybody.

    Args:
        x: one input, (...), on the CPU.
        noise: of the smoothed classifier, for this input.
        procedure: how it is decided.
        seed: of its draws.
        client: who asks; clients take turns.
        on_end: hears, in the engine's thread, the certificate, or what went wrong; None: it was given up.
        on_votes: hears, in the engine's thread, what was drawn so far, by purpose.
        whole: the question that this one is a part of, and is given up with.
    """

    def __init__(
        self,
        x: Tensor,
        noise: Noise,
        procedure: Procedure,
        *,
        seed: int,
        client: str = "",
        on_end: Callable[[Outcome], None],
        on_votes: Callable[[dict[str, Tally]], None] = lambda _: None,
        whole: Question | None = None,
    ) -> None:
        self.x, self.noise, self.procedure, self.seed, self.client = x, noise, procedure, seed, client
        self.on_end, self.on_votes, self._whole = on_end, on_votes, whole
        self.input_id = input_id(x)
        self._left = False
        self.restart()

    def give_up(self) -> None:
        """Take no further turn. By whoever asked."""
        self._left = True

    @property
    def given_up(self) -> bool:
        """Nobody waits for the answer any more."""
        return self._left or (self._whole is not None and self._whole.given_up)

    def restart(self) -> None:
        """From the first draw, which is the same one again."""
        self._used: dict[str, int] = {}
        self._answers: list[tuple[str, Tally]] = []
        self._part: Tally | None = None  # of the current ask
        self._conversation: Conversation[Certificate] | None = None
        self._ask: Ask | None = None
        self.outcome: Certificate | Exception | None = None

    @property
    def votes(self) -> dict[str, Tally]:
        """What was drawn so far, by purpose."""
        sums: dict[str, Tally] = {}
        current = [] if self._ask is None or self._part is None else [(self._ask.purpose, self._part)]
        for purpose, tally in (*self._answers, *current):
            sums[purpose] = sums[purpose] + tally if purpose in sums else tally
        return sums

    def begin(self) -> bool:
        """Hear the first wish, if not yet; False: the procedure has none, and `outcome` says why."""
        try:
            if self._ask is None:
                self._conversation = self.procedure.certify(self.noise)
                self._ask = next(self._conversation)
        except (InputError, ArithmeticError) as error:
            self.outcome = error
        return self.outcome is None

    def turn(self, number: int, unit: int) -> InputProgress[Answered]:
        """The next turn, as the sampler takes it, after `begin`. Asks are cut after whole `unit`s of draws."""
        # The dictionary goes from turn to turn: in it the sampler writes down which draws were used.
        conversation = self._turn(unit)
        return InputProgress(number, self.x, self.noise, self.input_id, conversation, used=self._used, seed=self.seed)

    def _turn(self, unit: int) -> Conversation[Answered]:
        assert self._conversation is not None
        assert self._ask is not None
        spent = 0
        try:
            while True:  # a turn has at least one ask
                done = 0 if self._part is None else self._part.draws
                most = max(unit, (TURN - spent) // unit * unit)
                n = min(most, self._ask.n - done)
                # What is drawn ahead is lost with the turn.
                further = min(self._ask.n - done - n + self._ask.further, max(0, TURN - spent - n))
                asked = Ask(self._ask.purpose, n, self._ask.beta, further)
                tally = yield asked
                spent += asked.n
                self._part = tally if self._part is None else self._part + tally
                self.on_votes(self.votes)
                if self._part.draws == self._ask.n:
                    self._answers.append((self._ask.purpose, self._part))
                    whole, self._part = self._part, None
                    self._ask = self._conversation.send(whole)
                if spent >= TURN or self.given_up:
                    break
        except StopIteration as stop:
            self.outcome = dataclasses.replace(stop.value, answers=tuple(self._answers))
        except (InputError, ArithmeticError) as error:  # of the procedure: it concerns nobody else
            self.outcome = error
        return Answered(label=ABSTAIN, reason="the turn is over", alpha=0.5, procedure={})


class Questions(Iterator[InputProgress[Answered]]):
    """Questions that wait for a turn: clients one after the other, each client's own in the order they came.

    Any thread may add; the sampler takes. Nothing to take is no end: whoever was told to stop may ask again. `on_over`
    hears of those that need no turn any more.
    """

    def __init__(self, unit: int, on_over: Callable[[Question], None]) -> None:
        self._unit, self._on_over = unit, on_over
        self._waiting: OrderedDict[str, deque[Question]] = OrderedDict()
        self._something = threading.Condition()
        self._closed = False
        self._number = 0
        self.taken: dict[int, Question] = {}  # who has a turn now; of the engine's thread alone

    def add(self, question: Question) -> None:
        """Stand in line, at the end of the client's own."""
        with self._something:
            self._waiting.setdefault(question.client, deque()).append(question)
            self._something.notify()

    def close(self) -> None:
        """No further question will be added, but for the further turns of those that are here."""
        with self._something:
            self._closed = True
            self._something.notify()

    def wait(self) -> bool:
        """Until somebody waits for a turn; False: nobody does, and nobody will."""
        with self._something:
            self._something.wait_for(lambda: self._waiting or self._closed)
            return bool(self._waiting)

    def __len__(self) -> int:
        with self._something:
            return sum(map(len, self._waiting.values()))

    def __next__(self) -> InputProgress[Answered]:
        while True:
            question = self._first()
            if question is None:
                raise StopIteration
            if not question.given_up and question.begin():
                self._number += 1
                self.taken[self._number] = question
                return question.turn(self._number, self._unit)
            self._on_over(question)

    def _first(self) -> Question | None:
        with self._something:
            if not self._waiting:
                return None
            client, own = next(iter(self._waiting.items()))
            question = own.popleft()
            if own:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            return question


class LiveEngine:
    """A thread that holds all conversations there are, with one pool and one compiled model.

    `add` may be called from any thread. `close` waits until everything that was added has been answered.

    Args:
        smoothed: the classifier; its own seed is for looking at the model only.
        example: an input like those that will come, (1, ...).
        on_batch: hears of every batch how many rows it has, and of how many.
    """

    def __init__(
        self, smoothed: Smoothed, example: Tensor, *, on_batch: Callable[[int, int], None] = lambda rows, of: None
    ) -> None:
        self._drawing, self._on_batch = smoothed.drawing(example), on_batch
        self._example = example[:1].expand(2, *example.shape[1:])  # two: several questions will share calls
        # Where a row's scores depend on its company, a cut between full calls leaves every row its company.
        self._unit = math.lcm(BLOCK, self._drawing.compiled.rows)
        self._questions = Questions(self._unit, self._end)
        self._thread = threading.Thread(target=self._work, name="smoothcert-engine", daemon=True)
        self._thread.start()

    @property
    def description(self) -> dict[str, Any]:
        """What identifies the classifier that is sampled."""
        return self._drawing.compiled.description

    @property
    def waiting(self) -> int:
        """How many wait for a turn, now."""
        return len(self._questions)

    def add(self, question: Question) -> None:
        """Ask."""
        if not self._thread.is_alive():
            raise InputError("the engine was closed; start another one")
        self._questions.add(question)

    def close(self) -> None:
        """Answer what was asked, and end."""
        self._questions.close()
        self._thread.join()

    def _work(self) -> None:
        questions = self._questions
        while questions.wait() or questions.taken:
            try:
                for progress, _ in self._drawing.conversations(self._example, questions, on_batch=self._on_batch):
                    self._over(questions.taken.pop(progress.row))
            except Exception:
                # One of those under way was the cause, and which one is not said: each is asked again by itself.
                suspects, questions.taken = list(questions.taken.values()), {}
                for question in suspects:
                    self._alone(question)

    def _over(self, question: Question) -> None:
        """A turn is over: an answer, or another turn."""
        if question.outcome is not None or question.given_up:
            self._end(question)
            return
        self._questions.add(question)

    def _alone(self, question: Question) -> None:
        question.restart()
        while not question.given_up and question.outcome is None and question.begin():
            try:
                list(self._drawing.conversations(self._example, iter([question.turn(0, self._unit)])))
            except Exception as error:
                question.outcome = error
        self._end(question)

    def _end(self, question: Question) -> None:
        outcome = question.outcome
        if isinstance(outcome, Certificate):
            outcome = self._drawing.filled(outcome, question.noise, question.input_id, question.seed)
        question.on_end(None if question.given_up and outcome is None else outcome)
