"""Workers elsewhere, in processes or on machines: who is there, what each has under way, and who takes the next work.

What differs between kinds of workers is a `Recruiter`, which starts them, and a `Link` to each. A worker that is lost
is replaced, what it had under way is reported as lost, and workers that come later are used. All state belongs to the
crew's own thread; everybody else puts something into its inbox.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import queue
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from smoothcert.core.errors import InputError
from smoothcert.engine.pools.base import Work, WorkLostError
from smoothcert.engine.pools.members import CALLS, Member, Model, Order, fail
from smoothcert.engine.pools.recruiting import Answered, Inbox, Link, Lost, Recruiter
from smoothcert.engine.pools.shipping import Reply, parcel_of, software

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")

TICK = 2.0  # seconds between looks at who is missing
PATIENCE = 30.0  # seconds without any worker, until that is said
IDLE = 60.0  # seconds without work, until workers are let go: others may want the machine
MOST_FAILURES = 3  # workers in a row that ended before they had begun
_log = logging.getLogger("smoothcert.pools")


class _Opened(NamedTuple):
    model: Model
    future: Future[None]


class _Closed(NamedTuple):
    model: Model


class _Dropped(NamedTuple):
    key: int


class _Rest(NamedTuple):
    pass


class Crew:
    """Hands works to workers that hold their model and have room, the least busy first."""

    def __init__(self, recruiter: Recruiter) -> None:
        self.recruiter = recruiter
        self.alive = True
        self._inbox: Inbox = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._known: weakref.WeakKeyDictionary[Compiled, Model] = weakref.WeakKeyDictionary()
        self._members: dict[Link, Member] = {}
        self._models: dict[int, Model] = {}
        self._failures, self._looked, self._began, self._said = 0, 0.0, time.monotonic(), set[str]()
        self._thread = threading.Thread(target=self._run, name="smoothcert-crew", daemon=True)
        self._thread.start()

    def enlist(self, compiled: Compiled) -> Model:
        """Begin with a model; returns when at least one worker holds it, and raises if none can. `leave` ends it."""
        with self._lock:
            if compiled not in self._known:
                parcel = parcel_of(compiled, self.recruiter.pack_model)
                model = Model(next(self._numbers), self.recruiter.stow(pickle.dumps(parcel)))
                self._known[compiled] = model
                weakref.finalize(compiled, self._inbox.put, _Dropped(model.key)).atexit = False
        model = self._known[compiled]
        first: Future[None] = Future()
        self._put(_Opened(model, first))
        try:
            first.result()
        except BaseException:
            self.leave(model)
            raise
        return model

    def submit(self, model: Model, work: Work[Result]) -> Future[Result]:
        """Hand out, as soon as a worker has room."""
        order = Order(model, self.recruiter.pack(work), Future())
        self._put(order)
        return order.future

    def leave(self, model: Model) -> None:
        """A session is over."""
        self._put(_Closed(model))

    @property
    def has_workers(self) -> bool:
        """Whether there are any, or will be soon."""
        return bool(self._members)

    def rest(self) -> None:
        """Let workers go that have nothing to do."""
        self._put(_Rest())

    def close(self) -> None:
        """End all workers."""
        self._inbox.put(None)
        self._thread.join(timeout=10)

    def _put(self, event: Any) -> None:
        self._inbox.put(event)
        if not self.alive:  # nobody reads any more, or not to the end
            self._refuse_rest(InputError("the pool has ended; run it again"))

    def _refuse_rest(self, error: InputError) -> None:
        for event in _rest(self._inbox):
            if isinstance(event, Order | _Opened):
                fail(event.future, error)

    # From here on: the crew's own thread.

    def _run(self) -> None:
        ended = InputError("the pool was closed while it was at work")
        try:
            while self._turn():
                pass
        except Exception as error:  # what starts workers is gone itself: nobody shall wait for ever
            ended = InputError(f"the pool has ended ({type(error).__name__}: {error}); run it again")
        self.alive = False
        self._give_up(ended)
        self._refuse_rest(ended)

    def _turn(self) -> bool:
        busy = any(model.sessions for model in self._models.values())
        try:
            event = self._inbox.get(timeout=TICK if busy else IDLE if self._members else None)
        except queue.Empty:
            event = _Rest()
        if event is None:
            return False
        if not isinstance(event, _Rest):
            self._handle(event)
        elif not busy:
            self._end_members()
        if any(model.sessions for model in self._models.values()):
            if time.monotonic() - self._looked > TICK:
                self._recruit()
            self._dispatch()
        return True

    def _handle(self, event: Any) -> None:
        if isinstance(event, Answered):
            if event.link in self._members:  # else it was given up, and what it did was handed out again
                self._answered(self._members[event.link], event.number, event.reply)
        elif isinstance(event, Lost):
            self._lost(event.link, event.reason)
        elif isinstance(event, Order):
            event.model.queue.append(event)
            self._judge(event.model)
        elif isinstance(event, _Opened):
            self._models[event.model.key] = event.model
            if not any(model.sessions for model in self._models.values()):
                self._began, self._failures = time.monotonic(), 0
                self._looked = 0.0  # at once
            event.model.sessions += 1
            event.model.awaited.append(event.future)
            self._ask_to_hold(event.model)
        elif isinstance(event, _Closed):
            event.model.sessions -= 1
        elif isinstance(event, _Dropped) and self._models.pop(event.key, None) is not None:
            for member in self._members.values():
                if event.key in member.models:
                    del member.models[event.key]
                    self._call(member, "drop", "drop", event.key)

    def _answered(self, member: Member, number: int, packed: bytes) -> None:
        asked, reply = member.calls.pop(number), Reply.unpacked(packed)
        if isinstance(asked, Order):
            if reply.error is not None:
                asked.future.set_exception(reply.error)
            else:
                asked.future.set_result(reply.result)
        elif isinstance(asked, Model):
            member.models[asked.key] = reply.error or True
            self._count(asked)
            if reply.error is not None and not self._judge(asked) and str(reply.error) not in self._said:
                self._said.add(str(reply.error))
                _log.warning("%s; it is not used", reply.error)
        elif asked == "hello":
            member.place, self._failures = reply.result, 0
            for model in self._models.values():
                if model.sessions:
                    self._ask_to_hold(model)

    def _ask_to_hold(self, model: Model) -> None:
        for member in self._members.values():
            if member.place is not None and model.key not in member.models:
                member.models[model.key] = None
                self._call(member, model, "hold", model.key, software(), model.stowed)
        self._count(model)
        self._judge(model)

    def _count(self, model: Model) -> None:
        """How many hold it; who waits for the first one needs to wait no longer."""
        model.holders = sum(member.holds(model) for member in self._members.values())
        if model.holders:
            model.resolve()

    def _judge(self, model: Model) -> bool:
        """Whether all that are there refuse it, and there is no room for others: then it is over."""
        if model.holders:
            return False
        present = [member for member in self._members.values() if member.place is not None]
        refusals = [error for member in present if (error := member.refusal(model)) is not None]
        over = bool(present) and len(refusals) == len(present) and len(present) >= self.recruiter.room()
        if over:
            model.fail(refusals[0])
        return over

    def _lost(self, link: Link, reason: str) -> None:
        member = self._members.pop(link, None)
        if member is None:
            return
        link.end()
        for asked in member.calls.values():
            if isinstance(asked, Order):
                asked.future.set_exception(WorkLostError(f"{member.place or 'a worker'} is gone: {reason}"))
        for model in self._models.values():
            self._count(model)
        if member.place is not None:
            self._looked = 0.0  # replaced at once
            return
        self._failures += 1
        if self._failures >= MOST_FAILURES and not any(one.place for one in self._members.values()):
            self._give_up(InputError(f"no worker could be started: {reason}"))

    def _recruit(self) -> None:
        self._looked = time.monotonic()
        refused = sum(member.useless for member in self._members.values())
        for _ in range(self.recruiter.wanted(refused) - len(self._members)):
            link = self.recruiter.start(self._inbox)
            self._members[link] = member = Member(link)
            self._call(member, "hello", "hello")
        for model in self._models.values():
            self._judge(model)  # there may be less room now
        if any(member.place for member in self._members.values()):
            self._began = self._looked
        elif self._looked - self._began > PATIENCE:
            self._began = self._looked
            _log.warning("still waiting for a worker: %s", self.recruiter.waiting)

    def _dispatch(self) -> None:
        """One of each model in turn, so that no session waits for all of another one."""
        waiting = [model for model in self._models.values() if model.queue]
        while waiting:
            waiting = [model for model in waiting if self._hand_out(model) and model.queue]

    def _hand_out(self, model: Model) -> bool:
        free = [member for member in self._members.values() if member.holds(model) and len(member.calls) < CALLS]
        if not free:
            return False
        order = model.queue.popleft()
        if order.future.set_running_or_notify_cancel():
            self._call(min(free, key=lambda one: len(one.calls)), order, "run", model.key, order.work)
        return True

    def _call(self, member: Member, asked: Any, method: str, *arguments: Any) -> None:
        number = next(self._numbers)
        member.calls[number] = asked
        member.link.call(number, method, *arguments)

    def _give_up(self, error: InputError) -> None:
        for model in self._models.values():
            model.fail(error)
        for member in self._members.values():
            for asked in member.calls.values():
                if isinstance(asked, Order):
                    asked.future.set_exception(error)
        self._end_members()

    def _end_members(self) -> None:
        members, self._members = self._members, {}
        for link in members:
            link.end()
        for model in self._models.values():
            model.holders = 0


def _rest(inbox: Inbox) -> Iterator[Any]:
    while True:
        try:
            yield inbox.get_nowait()
        except queue.Empty:
            return
