"""Questions become answers: equal ones are one, what was taken is answered, and the run has each once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from serving import NOISE, SHAPE, SPEC, images, tensors

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.memory import Memory
from smoothcert.models import build
from smoothcert.procedures import Certificate, Fixed, Procedure
from smoothcert.runs import ModelConfig
from smoothcert.service.answering import Service
from smoothcert.service.budget import DailyAnswers
from smoothcert.service.errors import ClosingError, TurnedAwayError
from smoothcert.service.journal import ServiceConfig
from smoothcert.service.keys import KeyRing
from smoothcert.service.limits import Limits
from smoothcert.service.metrics import Metrics

QUICK, LONG = Fixed(n=500), Fixed(n=8_000)


@contextmanager
def service(out: Path, memory: Memory | None = None, **limits: Any) -> Iterator[Service]:
    smoothed = Smoothed(build(SPEC, seed=0), 10, NOISE, input_shape=SHAPE, workers=1)
    example, allowed = torch.zeros(1, *SHAPE), Limits(**limits)
    noise, stream = NOISE.for_inputs(example).describe(), NOISE.stream_kind("cpu")
    names = tuple("abcdefghij")
    config = ServiceConfig(
        key="", model=ModelConfig(), classifier=smoothed.describe(), num_classes=10, class_names=names, noise=noise,
        stream=stream,
        input_shape=SHAPE, memory=None if memory is None else memory.claim(smoothed.describe(), noise, SHAPE),
    )  # fmt: skip
    keys = KeyRing(out, config, allowed)
    running = Service(
        smoothed, example, QUICK, keys, class_names=names, memory=memory, limits=allowed, metrics=Metrics()
    )
    try:
        yield running
    finally:
        running.close()


def lines(out: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in out.glob("*/records.jsonl"))


def test_equal_questions_are_one_and_the_key_decides_the_answer(tmp_path: Path) -> None:
    x = tensors(images(1))[0]
    with service(tmp_path) as running:
        both = [running.ask(x, QUICK, client=client).future for client in "ab"]
        first, second = (future.result(60) for future in both)
        later = running.ask(x, QUICK, client="c").future.result(60)
        assert first == second == later
        running.rotate()
        other = running.ask(x, QUICK, client="a").future.result(60)
    assert first.certificate.key != other.certificate.key
    assert first.certificate.answers != other.certificate.answers
    assert lines(tmp_path) == 2
    assert len(list((tmp_path / "secrets").iterdir())) == 2
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


def test_a_full_queue_turns_away_and_closing_answers_what_was_taken(tmp_path: Path) -> None:
    x = tensors(images(4))
    with service(tmp_path, queue=3) as running:
        tickets = [running.ask(one, LONG, client="a") for one in x[:3]]
        with pytest.raises(TurnedAwayError, match="3 questions wait already"):
            running.ask(x[3], LONG, client="b")
        joined = running.ask(x[0], LONG, client="b")  # no further question
        for ticket in tickets[1:]:
            ticket.leave()
        closing = threading.Thread(target=running.close)
        closing.start()
        answer = tickets[0].future.result(120)
        closing.join(60)
        with pytest.raises(ClosingError):
            running.ask(x[3], QUICK, client="b")
    assert joined.future.result(1) is answer
    assert answer.certificate.draws == 8_100
    assert 1 <= lines(tmp_path) <= 3  # who left may have been decided by then


def test_settings_and_answers_of_a_key_are_bounded(tmp_path: Path) -> None:
    x = tensors(images(3))
    with service(tmp_path, settings=2, answers_per_key=2) as running:
        found = [running.ask(x[0], Fixed(n=200 + i), client="a").future.result(60) for i in range(2)]
        assert len({answer.certificate.key for answer in found}) == 1
        third = running.ask(x[1], Fixed(n=202), client="a").future.result(60)  # under the next key
        assert third.certificate.key != found[0].certificate.key
        running.ask(x[1], Fixed(n=203), client="a").future.result(60)
    with service(tmp_path / "b", settings=1) as running:
        running.ask(x[0], QUICK, client="a")
        with pytest.raises(TurnedAwayError, match="different settings"):
            running.ask(x[0], LONG, client="a")


class _Failing:
    """A memory that is gone once."""

    def __init__(self) -> None:
        self.failed = False

    def insert(self, x: Any, certificate: Certificate) -> Certificate:
        if not self.failed:
            self.failed = True
            raise OSError(28, "No space left on device")
        return certificate

    def claim(self, *_: Any) -> str:
        return "id"


def test_what_cannot_be_written_is_not_answered(tmp_path: Path) -> None:
    x = tensors(images(1))[0]
    with service(tmp_path, memory=_Failing(), most_answers=1) as running:  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space"):
            running.ask(x, QUICK, client="a").future.result(60)
        assert lines(tmp_path) == 0
        assert running.ask(x, QUICK, client="a").future.result(60).receipt  # and cost nothing
    assert lines(tmp_path) == 1


def test_who_looks_at_votes_and_leaves_has_paid(tmp_path: Path) -> None:
    """Else a client looks at the votes of many inputs and lets only those be answered whose draws are lucky."""
    x = tensors(images(3))
    with service(tmp_path, most_answers=2) as running:
        seen = threading.Event()
        ticket = running.ask(x[0], LONG, client="a")
        ticket.on_votes = lambda _: seen.set()
        assert seen.wait(60)
        ticket.leave()
        running.ask(x[1], QUICK, client="a").future.result(60)
        with pytest.raises(TurnedAwayError, match="all 2 answers"):
            running.ask(x[2], QUICK, client="a")
        running.ask(x[0], LONG, client="a").future.result(60)  # the same question, so the same draws: paid for already


def test_questions_are_paid_for_once_a_day() -> None:
    budget = DailyAnswers(1)
    for question in "xyz":
        budget.spend("a", question)
        budget.spend("a", question)  # it has the same draws
        budget.spend("b", question)
        with pytest.raises(TurnedAwayError, match="all 1 answers"):
            budget.spend("a", "another")
        for client in "ab":
            budget.give_back(client, question)


def test_nobody_puts_a_doubtful_region_into_the_memory_of_all(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.sqlite") as memory, service(tmp_path / "a", memory) as running:
        with pytest.raises(InputError, match=r"alpha must be at most 0\.001 here, got 0\.5"):
            running.prepare(Fixed(n=500, alpha=0.5))
        running.prepare(Fixed(n=500, alpha=0.0001))
    with service(tmp_path / "b") as running:
        running.prepare(Fixed(n=500, alpha=0.5))


def test_two_servers_on_one_memory_never_give_two_answers_for_one_region(tmp_path: Path, postgres: str) -> None:
    """Clients ask both, at the same time, about inputs that lie close together; each has its own draws."""
    base = tensors(images(2, seed=3))
    steps = torch.randint(-6, 7, (12, *SHAPE), generator=torch.Generator().manual_seed(0)) / 255
    x = torch.round((base.repeat(6, 1, 1, 1) + steps).clamp(0, 1) * 255) / 255
    ask: Callable[[Service, torch.Tensor, Procedure], Any] = lambda s, one, p: s.ask(one, p, client="c").future  # noqa: E731
    with ExitStack() as stack:
        memories = [stack.enter_context(Memory(postgres)) for _ in range(2)]
        servers = [stack.enter_context(service(tmp_path / str(i), memory)) for i, memory in enumerate(memories)]
        asked = [(i, row, ask(servers[i], x[row], QUICK)) for row in range(len(x)) for i in (0, 1)]
        answers = [(row, future.result(120).certificate) for _, row, future in asked]
        assert memories[0].check() == []
        claimed = [(x[row].double(), one) for row, one in answers if not one.abstained]
        assert len(claimed) > len(x)
        for a, first in claimed:
            for b, second in claimed:
                if float((a - b).norm()) < max(first.radius, second.radius):
                    assert first.label == second.label
        stored = "".join(str(region) for region, _ in memories[0].regions())
    for one in tmp_path.glob("*/secrets/*.key"):
        secret = int(one.read_text(), 16)
        assert one.read_text().strip() not in stored
        assert str(secret) not in stored
    assert '"seed"' not in stored
