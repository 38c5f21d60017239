"""A thousand random mutations of every kind of file: harmless, or refused in one sentence; never a wrong result."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from workloads import Attack, Certify, Inserts, silent, tiny

from smoothcert.attack.records import AttackRun
from smoothcert.core.errors import InputError
from smoothcert.memory import Memory
from smoothcert.models import build, load, save
from smoothcert.models.ensembles import load_model
from smoothcert.models.ensembles import save as save_ensemble
from smoothcert.runs import Run
from smoothcert.training import Folder
from smoothcert.training.state import Epoch, Position, load_state, save_state

TRIALS = 1000
Read = Callable[[], Any]


def mutated(whole: bytes, chance: random.Random) -> bytes:
    """One to three changes: bits and bytes, cuts, insertions, copies, blocks and lines that change places."""
    content = whole
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice((_bit, _byte, _digit, _cut, _drop, _insert, _copy, _blocks, _lines, _zeros))(
            content or b"\0", chance
        )
    return content


def _bit(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


def _byte(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]


def _digit(content: bytes, chance: random.Random) -> bytes:
    """What a slip of a hand would change."""
    places = [at for at, one in enumerate(content[: 1 << 16]) if chr(one).isdigit()]
    at = chance.choice(places or [0])
    return content[:at] + str(chance.randrange(10)).encode() + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _drop(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + content[at + chance.choice((1, 2, 16, 300)) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice((b"0", b" ", b"\n", b"\0", b'"', b"}", chance.randbytes(20))) + content[at:]


def _copy(content: bytes, chance: random.Random) -> bytes:
    start, at = chance.randrange(len(content)), chance.randrange(len(content))
    return content[:at] + content[start : start + chance.randrange(1, 400)] + content[at:]


def _blocks(content: bytes, chance: random.Random) -> bytes:
    size = chance.choice((1, 8, 64, 4096))
    one, other = (size * chance.randrange(-(-len(content) // size)) for _ in range(2))
    blocks = bytearray(content)
    blocks[one : one + size], blocks[other : other + size] = content[other : other + size], content[one : one + size]
    return bytes(blocks)


def _lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _zeros(content: bytes, chance: random.Random) -> bytes:
    """What a power failure leaves of blocks that were never written."""
    at, size = chance.randrange(len(content)), chance.choice((1, 16, 512))
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def harmless_or_refused(path: Path, read: Read, same: Callable[[Any, Any], bool], seed: str) -> tuple[int, int]:
    """How many mutations were refused and how many accepted; each accepted one gives what the whole file gives."""
    whole, chance = path.read_bytes(), random.Random(seed)
    expected, refused, accepted = read(), 0, 0
    for trial in range(TRIALS):
        content = mutated(whole, chance)
        while content == whole:
            content = mutated(whole, chance)
        path.write_bytes(content)
        for beside in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        try:
            found, sentence = read(), None
        except InputError as error:
            sentence = str(error)
        if sentence is not None:
            assert sentence
            assert "\n" not in sentence
            refused += 1
            continue
        assert same(found, expected), f"trial {trial}: {found!r} was accepted"
        accepted += 1
    path.write_bytes(whole)
    assert same(read(), expected)
    return refused, accepted


def equal(found: Any, expected: Any) -> bool:
    return bool(found == expected)


def beginning(found: Any, expected: Any) -> bool:
    """A file that was cut between two lines is one that is not finished, and is told as such."""
    return bool(found == expected[: len(found)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Certify().work(tmp_path, silent)
    return tmp_path / "run"


def test_run_json(run: Path) -> None:
    def read() -> Any:
        opened = Run.open(run)
        return opened.config, opened.records()

    refused, _ = harmless_or_refused(run / "run.json", read, equal, "run.json")
    assert refused > TRIALS / 2


def test_records(run: Path) -> None:
    def read() -> Any:
        return Run.open(run).records()

    def in_order(found: Any, expected: Any) -> bool:
        return beginning([record.index for record in found], [record.index for record in expected]) and beginning(
            found, expected
        )

    refused, _ = harmless_or_refused(run / "records.jsonl", read, in_order, "records.jsonl")
    assert refused > TRIALS / 2


@pytest.mark.parametrize("file", ["run.json", "records.jsonl"])
def test_attack_records(tmp_path: Path, file: str) -> None:
    attack = Attack()
    attack.work(tmp_path, silent)

    def read() -> Any:
        opened = AttackRun.open(tmp_path / "attack")
        return [opened.config, {one.index: one for one in opened.attacked()}]

    def same(found: Any, expected: Any) -> bool:
        order = list(attack.indices)
        there = [index for index in order if index in found[1]]
        return bool(found[0] == expected[0] and there == order[: len(there)]) and all(
            found[1][index] == expected[1][index] for index in there
        )

    refused, _ = harmless_or_refused(tmp_path / "attack" / file, read, same, f"attack {file}")
    assert refused > TRIALS / 2


def test_checkpoint(tmp_path: Path) -> None:
    spec, path = tiny(), tmp_path / "net.safetensors"
    save(path, build(spec, seed=0), spec, {"noise": {"name": "gaussian", "sigma": 0.25}, "seed": 3})

    def read() -> Any:
        found = load(path)
        return found.fingerprint, found.details, found.architecture

    assert harmless_or_refused(path, read, equal, "checkpoint") == (TRIALS, 0), "every byte counts"


def test_ensemble(tmp_path: Path) -> None:
    spec, path = tiny(), tmp_path / "both.json"
    nets = [tmp_path / f"net{seed}.safetensors" for seed in range(2)]
    for seed, net in enumerate(nets):
        save(net, build(spec, seed=seed), spec, {})
    save_ensemble(path, "soft-voting", nets, {"weights": [0.25, 0.75]}, {"held_out": ["a"]})

    def read() -> Any:
        found = load_model(path)
        return found.fingerprint, found.details, found.architecture

    assert harmless_or_refused(path, read, equal, "ensemble") == (TRIALS, 0), "every byte counts"


def test_memory(tmp_path: Path) -> None:
    """Also what is asked and inserted afterwards; the file has several pages."""
    inserts, path = Inserts(), tmp_path / "m.sqlite"
    inserts.work(tmp_path, silent)
    with Memory(path) as memory:
        for k in range(40):
            memory.insert(np.array([20.0 + 3 * k, 0], dtype=np.float32), inserts.certificate(k % 3, 1.0))
    points = [np.array(x, dtype=np.float32) for x in ((0, 0), (1.5, 0), (9, 0), (5, 5), (50, 0.5), (137, 0))]

    def read() -> Any:
        with Memory(path) as memory:
            if memory.owner is None:
                return None
            told = (memory.owner, [region for region, _ in memory.regions()], [memory.answer(x) for x in points])
            new = memory.insert(np.array([-50, 0], dtype=np.float32), inserts.certificate(2, 1.0))
            assert memory.check() == []
        return *told, new.label, new.radius

    with Memory(path) as memory:  # inserting it again changes nothing
        memory.insert(np.array([-50, 0], dtype=np.float32), inserts.certificate(2, 1.0))
    refused, _ = harmless_or_refused(path, read, equal, "memory")
    assert refused > TRIALS / 4


def test_training_state(tmp_path: Path) -> None:
    path, about = tmp_path / "state.safetensors", {"seed": 1, "settings": {"lr": 0.1}}

    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        net = nn.Linear(4, 3)
        nn.init.zeros_(net.weight)
        nn.init.zeros_(net.bias)
        return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    net, optimizer = fresh()
    net(torch.ones(2, 4)).square().sum().add(net.weight.sum()).backward()
    optimizer.step()
    position = Position(epoch=1, step=2, sums={"loss": 0.5}, history=[Epoch(1, 3, 0.25, {"loss": 0.25})])
    save_state(path, about, net, optimizer, position)

    def read() -> Any:
        other, its = fresh()
        try:
            found = load_state(path, about, other, its)
        except InputError:
            assert not other.weight.any(), "what is refused touches nothing"
            raise
        momenta = [its.state[parameter]["momentum_buffer"].tolist() for parameter in other.parameters()]
        return found, [parameter.tolist() for parameter in other.parameters()], momenta

    assert harmless_or_refused(path, read, equal, "state") == (TRIALS, 0), "every byte counts"


def test_training_configuration(tmp_path: Path) -> None:
    config = {"format": 1, "recipe": {"lr": 0.1, "name": "gaussian"}, "seed": 7, "data": {"fingerprint": "f" * 64}}
    with Folder.start(tmp_path / "out", config):
        pass

    def read() -> Any:
        return Folder.check(tmp_path / "out", config)

    refused, _ = harmless_or_refused(tmp_path / "out" / "train.json", read, equal, "train.json")
    assert refused > TRIALS / 2
