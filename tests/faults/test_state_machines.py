"""Runs and memories under any sequence of writing, killing, tearing and opening again."""

import os
import shutil
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from killed import Say, die, killed
from simulated_runs import simulated_config
from workloads import Certify, Inserts

from smoothcert.core.errors import InputError
from smoothcert.core.files import DRAFT
from smoothcert.memory import Memory
from smoothcert.memory.distance import distances, encode, tolerance
from smoothcert.memory.rule import Neighbour, decide
from smoothcert.memory.store import Region
from smoothcert.runs import Record, Run

CERTIFY, INSERTS = Certify(), Inserts()
PLAN = tuple(range(12))
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # kills need no disk, and flushing one takes long
SETTINGS = settings(
    max_examples=100, stateful_step_count=25, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@cache
def record(index: int) -> Record:
    return CERTIFY.record(index)


def config(seed: int = 0) -> Any:
    about = {"noise": CERTIFY.noise, "procedure": CERTIFY.procedure.describe(), "labels": (0,) * len(PLAN)}
    return simulated_config(PLAN, seed=seed, **about)


class Runs(RuleBasedStateMachine):
    """Acknowledged are the indices that `append` returned for; nothing else may be there but the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="smoothcert-run-", dir=PLACE))
        self.path = self.folder / "run"
        self.acknowledged: list[int] = []
        self.open: tuple[ExitStack, Any] | None = None

    def teardown(self) -> None:
        if self.open is not None:
            self.open[0].close()
        shutil.rmtree(self.folder)

    @initialize()
    def start(self) -> None:
        Run.start(self.path, config())

    @rule()
    @precondition(lambda self: self.open is None)
    def open_writer(self) -> None:
        stack = ExitStack()
        self.open = stack, stack.enter_context(Run.start(self.path, config()).writing())
        self.forget_unsaid()

    @rule()
    @precondition(lambda self: self.open is not None)
    def close_writer(self) -> None:
        assert self.open is not None
        self.open[0].close()
        self.open = None

    @rule()
    @precondition(lambda self: self.open is not None and len(self.acknowledged) < len(PLAN))
    def append(self) -> None:
        assert self.open is not None
        index = self.missing()[0]
        self.open[1].append(record(index))
        self.acknowledged.append(index)

    @rule()
    @precondition(lambda self: self.open is not None)
    def second_writer(self) -> None:
        with pytest.raises(InputError, match="another process"), Run.open(self.path).writing():
            pass

    @rule(seed=st.integers(1, 3))
    def other_configuration(self, seed: int) -> None:
        with pytest.raises(InputError, match="seed"):
            Run.start(self.path, config(seed))

    @rule(after=st.integers(0, 4), how=st.sampled_from(["between", "unsaid", "torn"]), share=st.floats(0.1, 0.9))
    @precondition(lambda self: self.open is None)
    def killed_writer(self, after: int, how: str, share: float) -> None:
        """Between two records, between a record and its acknowledgement, or in the middle of a line."""

        def work(say: Say) -> None:
            run = Run.start(self.path, config())
            done = {one.index for one in run.records()}
            left = [index for index in PLAN if index not in done]
            with run.writing() as writer:
                for index in left[:after]:
                    writer.append(record(index))
                    say(index)
                for index in left[after : after + 1]:
                    if how == "unsaid":
                        writer.append(record(index))
                    elif how == "torn":
                        with (self.path / "records.jsonl").open("ab") as file:
                            line = run.line(record(index), "0" * 32)
                            file.write(line[: int(share * len(line))])
                die()

        self.acknowledged += killed(work)
        self.forget_unsaid()

    @rule(share=st.floats(0.0, 1.0, exclude_max=True))
    @precondition(lambda self: self.open is None and len(self.acknowledged) < len(PLAN))
    def torn_line(self, share: float) -> None:
        """What a kill in the middle of a write leaves."""
        run = Run.open(self.path)
        lines = run.lines()
        line = run.line(record(self.missing()[0]), lines[-1].digest if lines else run.digest)
        with (self.path / "records.jsonl").open("ab") as file:
            if not run.torn:
                file.write(line[: int(share * len(line))])

    @rule()
    @precondition(lambda self: self.open is None)
    def killed_start(self) -> None:
        """What a kill at the start leaves."""
        (self.path / f"{DRAFT}{os.urandom(8).hex()}").write_bytes(b"half")
        Run.start(self.path, config())
        assert not [path for path in self.path.iterdir() if path.name.startswith(DRAFT)]

    @invariant()
    def nothing_is_lost(self) -> None:
        if not (self.path / "run.json").exists():
            return
        found = Run.open(self.path).records()
        assert [one.index for one in found] == sorted(self.acknowledged)
        assert found == [record(index) for index in sorted(self.acknowledged)]

    def missing(self) -> list[int]:
        return [index for index in PLAN if index not in self.acknowledged]

    def forget_unsaid(self) -> None:
        """A record may be there whose acknowledgement was killed: at most one, and it is the next."""
        there = [one.index for one in Run.open(self.path).records()]
        assert set(self.acknowledged) <= set(there)
        assert len(there) <= len(self.acknowledged) + 1
        self.acknowledged = there


class Memories(RuleBasedStateMachine):
    """Two who have it open, and those that are killed; rulings are those of a list of balls, to the last bit."""

    points = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(lambda p: np.array(p, dtype=np.float32) / 4)
    labels = st.integers(0, 2)
    sizes = st.sampled_from([0.1, 0.5, 1.0, 3.0])

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="smoothcert-memory-", dir=PLACE))
        self.path = self.folder / "m.sqlite"
        self.handles: list[Memory | None] = [None, None]
        self.balls: list[tuple[np.ndarray, int, float]] = []

    def teardown(self) -> None:
        for handle in self.handles:
            if handle is not None:
                handle.close()
        shutil.rmtree(self.folder)

    def handle(self, which: int) -> Memory:
        found = self.handles[which] or Memory(self.path)
        self.handles[which] = found
        return found

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        if (old := self.handles[which]) is not None:
            old.close()
            self.handles[which] = None
        self.handle(which)

    @rule(which=st.integers(0, 1), x=points, label=labels, size=sizes)
    def insert(self, which: int, x: np.ndarray, label: int, size: float) -> None:
        got = self.handle(which).insert(x, INSERTS.certificate(label, size))
        near = [
            Neighbour(i + 1, c, r, float(distances(x, y.reshape(1, -1), "l2")[0]), tolerance(2))
            for i, (y, c, r) in enumerate(self.balls)
        ]
        ruling = decide(label, size, [one for one in near if one.inside or (one.label != label and one.gap < size)])
        assert (got.label, got.radius) == (ruling.label, ruling.radius)
        if ruling.store:
            self.balls.append((x, ruling.label, ruling.radius))

    @rule(which=st.integers(0, 1), x=points)
    def answer(self, which: int, x: np.ndarray) -> None:
        found = self.handle(which).answer(x)
        inside = {c for y, c, r in self.balls if distances(x, y.reshape(1, -1), "l2")[0] < r * (1 - 1e-9)}
        assert len(inside) <= 1
        assert not inside or (found is not None and {found.label} == inside)

    @rule(
        after=st.integers(0, 3), how=st.sampled_from(["between", "unsaid", "in a transaction"]), seed=st.integers(0, 99)
    )
    def killed_inserts(self, after: int, how: str, seed: int) -> None:
        """Between two insertions, between one and its acknowledgement, or when a row is there and not committed."""

        def work(say: Say) -> None:
            rng = np.random.default_rng(seed)

            def ball() -> tuple[np.ndarray, int, float]:
                x = rng.integers(-8, 9, 2).astype(np.float32) / 4
                return x, int(rng.integers(3)), float(rng.choice([0.1, 0.5, 1.0]))

            memory = Memory(self.path)
            for _ in range(after):
                x, label, size = ball()
                got = memory.insert(x, INSERTS.certificate(label, size))
                say([x.tolist(), got.label, got.radius])
            x, label, size = ball()
            if how == "unsaid":
                memory.insert(x, INSERTS.certificate(label, size))
            elif how == "in a transaction" and memory.owner is not None:
                with memory._store.writing():
                    memory._refresh()
                    before = memory._last or str(memory.owner["id"])
                    sealed = Region.of(before, len(memory._regions) + 1, label, size, encode(x), {"alpha": 0.001})
                    memory._store.add(sealed)
                    die()
            die()

        said = killed(work)
        with Memory(self.path) as memory:
            if memory.owner is not None:
                there = [(x, region.label, region.radius) for region, x in memory.regions()]
                assert [(x.tolist(), c, r) for x, c, r in there[: len(self.balls)]] == [
                    (x.tolist(), c, r) for x, c, r in self.balls
                ], "what was there is there, in its order"
                self.balls = there
            for numbers, label, radius in said:
                found = memory.answer(np.array(numbers, dtype=np.float32))
                assert label < 0 or (found is not None and found.label == label and found.radius >= radius)

    @rule()
    def killed_while_it_was_made(self) -> None:
        """What a kill leaves beside it is gone when it is opened next."""
        if not self.path.exists():
            return
        draft = self.folder / f"{DRAFT}{os.urandom(8).hex()}"
        draft.write_bytes(b"half")
        with Memory(self.path):
            assert not draft.exists()

    @invariant()
    def it_holds_together(self) -> None:
        with Memory(self.path) as memory:
            if memory.owner is not None:
                assert memory.check() == []
                assert len(memory) == len(self.balls)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Runs, Memories])
def test_any_sequence_of_writing_killing_and_opening_again(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)
