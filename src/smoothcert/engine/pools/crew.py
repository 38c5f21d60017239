"""Workers elsewhere, in processes or on machines: who is there, what each has under way, and who takes the next work.

What differs between kinds of workers is a `Recruiter`, which starts them, and a `Link` to each. A worker that is lost is
replaced, what it had under way is reported as lost, and workers that come later are used. All state belongs to the
crew's own thread; everybody else puts something into its inbox.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import pickle
import queue
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from smoothcert.core.errors import InputError
from smoothcert.engine.pools.base import Session, Work, WorkerRefusedError, WorkLostError
from smoothcert.engine.pools.members import CALLS, Member, Model, Order
from smoothcert.engine.pools.shipping import Reply, pack, parcel_of, software

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")

TICK = 2.0  # seconds between looks at who is missing
PATIENCE = 30.0  # seconds without any worker, until that is said
IDLE = 60.0  # seconds without work, until workers are let go: others may want the machine
MOST_FAILURES = 5  # workers in a row that ended before they had begun
_log = logging.getLogger("smoothcert.pools")


class Answered(NamedTuple):
    """To the inbox: a worker has answered a call."""

    link: Link
    number: int
    reply: bytes


class Lost(NamedTuple):
    """To the inbox: a worker is gone, or out of reach."""

    link: Link
    reason: str


class _Opened(NamedTuple):
    model: Model
    first: Future[None]


class _Closed(NamedTuple):
    model: Model


class _Dropped(NamedTuple):
    key: int


Inbox = queue.SimpleQueue[Any]


class Link(ABC):
    """The way to one worker. What it answers (`Answered`), and that it is gone (`Lost`), goes to the inbox."""

    @abstractmethod
    def call(self, number: int, method: str, *arguments: Any) -> None:
        """Call a method of the worker's `ModelHolder`, without waiting; calls are done in their order."""

    @abstractmethod
    def end(self) -> None:
        """End the worker, if it is not gone."""


class Recruiter(ABC):
    """Starts workers of one kind."""

    waiting: str  # why there may be no worker yet, as part of a sentence

    @abstractmethod
    def wanted(self, refused: int) -> int:
        """How many workers there should be now, if so many of them are there and cannot be used."""

    @abstractmethod
    def room(self) -> int:
        """How many there can be now."""

    @abstractmethod
    def start(self, inbox: Inbox) -> Link:
        """Start one, without waiting for it."""

    @abstractmethod
    def stow(self, parcel: bytes) -> Any:
        """Put a packed model where every worker finds it; what comes back is what workers are told."""

    def pack_model(self, compiled: Compiled) -> bytes:
        """As bytes, its tensors in torch's own way: they come back on the device that they were on."""
        return pickle.dumps(compiled)

    def pack(self, work: Work[Any]) -> bytes:
        """As bytes."""
        return pack(work)


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

    def open(self, compiled: Compiled) -> Session:
        """A session; returns when at least one worker holds the model, and raises if none can."""
        with self._lock:
            if compiled not in self._known:
                parcel = parcel_of(compiled, self.recruiter.pack_model)
                model = Model(next(self._numbers), self.recruiter.stow(pickle.dumps(parcel)))
                self._known[compiled] = model
                weakref.finalize(compiled, self._inbox.put, _Dropped(model.key)).atexit = False
        model = self._known[compiled]
        session, first = CrewSession(self, compiled, model), Future[None]()
        self._inbox.put(_Opened(model, first))
        try:
            first.result()
        except BaseException:
            session.close()
            raise
        return session

    def submit(self, model: Model, work: Work[Result]) -> Future[Result]:
        """Hand out, as soon as a worker has room."""
        if not self.alive:
            raise InputError("the pool has ended: its workers cannot be reached any more; run it again")
        order = Order(model, self.recruiter.pack(work), Future())
        self._inbox.put(order)
        return order.future

    def leave(self, model: Model) -> None:
        """A session is over."""
        self._inbox.put(_Closed(model))

    def close(self) -> None:
        """End all workers."""
        self._inbox.put(None)
        self._thread.join(timeout=10)

    # From here on: the crew's own thread.

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception as error:  # what starts workers is gone itself: nobody shall wait for ever
            _log.debug("the pool has ended", exc_info=True)
            self._give_up(InputError(f"the pool has ended ({type(error).__name__}: {error}); run it again"))
        finally:
            self.alive = False
            self._end_members()

    def _turn(self) -> bool:
        busy = any(model.sessions for model in self._models.values())
        try:
            event = self._inbox.get(timeout=TICK if busy else IDLE if self._members else None)
        except queue.Empty:
            event = False
            if not busy:
                self._end_members()
        if event is None:
            self._give_up(InputError("the pool was closed while it was at work"))
            return False
        if event is not False:
            self._handle(event)
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
        elif isinstance(event, _Opened):
            self._models[event.model.key] = event.model
            if not any(model.sessions for model in self._models.values()):
                self._began, self._failures = time.monotonic(), 0
                self._looked = 0.0  # at once
            event.model.sessions += 1
            event.model.awaited.append(event.first)
            self._ask_to_hold(event.model)
        elif isinstance(event, _Closed):
            event.model.sessions -= 1
        elif isinstance(event, _Dropped) and self._models.pop(event.key, None) is not None:
            for member in self._members.values():
                if event.key in member.models:
                    del member.models[event.key]
                    self._call(member, "drop", "drop", event.key)

    def _answered(self, member: Member, number: int, packed: bytes) -> None:
        asked, reply = member.calls.pop(number), _unpacked(packed)
        if isinstance(asked, Order):
            if reply.error is not None:
                asked.future.set_exception(reply.error)
            else:
                asked.future.set_result(reply.result)
        elif isinstance(asked, Model):
            member.models[asked.key] = reply.error or True
            if isinstance(reply.error, WorkerRefusedError):
                self._refused(asked, reply.error)
            self._count(asked)
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

    def _count(self, model: Model) -> None:
        """How many hold it; who waits for the first one needs to wait no longer."""
        model.holders = sum(member.holds(model) for member in self._members.values())
        if model.holders:
            model.resolve()

    def _refused(self, model: Model, error: WorkerRefusedError) -> None:
        """Go on with the others, and say so; if there are none, and cannot be, it is over."""
        present = [member for member in self._members.values() if member.place is not None]
        if all(member.refuses(model) for member in present) and len(present) >= self.recruiter.room():
            model.fail(error)
        elif str(error) not in self._said:
            self._said.add(str(error))
            _log.warning("%s; it is not used", error)

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
                if isinstance(asked, Order) and not asked.future.done():
                    asked.future.set_exception(error)
        self._end_members()
        for event in _rest(self._inbox):
            if isinstance(event, Order):
                event.future.set_exception(error)
            elif isinstance(event, _Opened):
                event.first.set_exception(error)

    def _end_members(self) -> None:
        members, self._members = self._members, {}
        for link in members:
            link.end()
        for model in self._models.values():
            model.holders = 0


def _unpacked(packed: bytes) -> Reply:
    try:
        reply: Reply = pickle.loads(packed)
    except Exception as error:
        return Reply(error=InputError(f"what a worker answered cannot be read ({type(error).__name__}: {error})"))
    return reply


def _rest(inbox: Inbox) -> Iterator[Any]:
    while True:
        try:
            yield inbox.get_nowait()
        except queue.Empty:
            return


class CrewSession(Session):
    """A crew at work on one compiled model."""

    def __init__(self, crew: Crew, compiled: Compiled, model: Model) -> None:
        self._crew, self._model = crew, model
        self._compiled: Compiled | None = compiled  # its workers drop the model when nobody has it any more
        self._under_way: set[Future[Any]] = set()

    @property
    def workers(self) -> int:
        """Those that hold the model."""
        return max(1, self._model.holders)

    @property
    def in_flight(self) -> int:
        """One at work and one on its way, for each: the round trip is hidden, and nobody has a long queue."""
        return CALLS * self.workers

    def submit(self, work: Work[Result]) -> Future[Result]:
        """Hand out."""
        future = self._crew.submit(self._model, work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def close(self) -> None:
        """Give up what was not begun, and wait for what was."""
        rest = tuple(self._under_way)
        for future in rest:
            future.cancel()
        wait(rest)
        if self._compiled is not None:
            self._compiled = None
            self._crew.leave(self._model)


_crews: dict[Hashable, Crew] = {}
_lock = threading.Lock()


def crew(key: Hashable, new_recruiter: Callable[[], Recruiter]) -> Crew:
    """The workers that this process has for a plan; started when first asked for, and again if they have ended."""
    with _lock:
        if key not in _crews or not _crews[key].alive:
            _crews[key] = Crew(new_recruiter())
        return _crews[key]


def close_all() -> None:
    """End all workers elsewhere."""
    with _lock:
        crews = list(_crews.values())
        _crews.clear()
    for one in crews:
        one.close()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 (it may have been held when the process was forked)
    _lock = threading.Lock()
    _crews.clear()  # a child has no thread that would speak for them


atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork)
