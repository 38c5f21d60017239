"""`Memory` on both stores: the same rulings as a list of balls, whose it is, and damage in one sentence."""

import dataclasses
import errno
import fcntl
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.memory import Memory
from smoothcert.memory import memory as memory_module
from smoothcert.memory import sqlite as sqlite_module
from smoothcert.memory.distance import distances, encode, tolerance
from smoothcert.memory.rule import Neighbour, decide
from smoothcert.memory.sqlite import SqliteStore
from smoothcert.memory.store import Region
from smoothcert.procedures import ABSTAIN, Certificate, Scope

Certified = Callable[..., Certificate]


def point(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def test_it_is_made_by_the_first_insertion_and_answers_from_then_on(where: str, certified: Certified) -> None:
    with Memory(where) as memory:
        assert (memory.owner, len(memory), memory.answer(point(0, 0))) == (None, 0, None)
        own = certified(1, 1.0)
        got = memory.insert(point(0, 0), own)
        assert (got.label, got.radius, got.scope) == (1, 1.0, Scope.MEMORY)
        assert got.from_draws is not None
        assert (got.from_draws.region, got.from_draws.cut_by, got.reason) == (1, None, own.reason)
        assert dataclasses.replace(got.as_drawn(), scope=own.scope) == own
    with Memory(where) as again:
        found = again.answer(point(0.5, 0))
        assert found is not None
        assert (found.label, found.region) == (1, 1)
        assert 0.5 - 1e-12 < found.radius <= 0.5
        assert again.answer(point(1.5, 0)) is None


def test_what_the_draws_said_is_kept_beside_the_ruling(where: str, certified: Certified) -> None:
    memory = Memory(where)
    memory.insert(point(0, 0), certified(1, 1.0))
    over = memory.insert(point(0.25, 0), certified(2, 3.0))
    assert (over.label, over.drawn_label, over.drawn_radius, over.overruled, over.cut) == (1, 2, 3.0, True, False)
    assert over.reason == "region 1 of class 1 contains it and answers; the draws said 2: as simulated"
    supplied = memory.insert(point(0.5, 0), certified(ABSTAIN, 0.0))
    assert (supplied.label, supplied.supplied, supplied.overruled, supplied.cut) == (1, True, False, False)
    cut = memory.insert(point(2, 0), certified(2, 1.5))
    assert (cut.label, cut.cut, cut.drawn_radius) == (2, True, 1.5)
    assert cut.radius == pytest.approx(1.0, abs=1e-12)
    assert cut.reason.endswith("; cut from 1.5000 beside region 1 of class 1")
    further = memory.insert(point(-0.25, 0), certified(1, 0.1))
    assert (further.radius > 0.7, further.cut, further.overruled) == (True, False, False)
    assert further.reason.endswith("; region 1 reaches further")
    abstained = memory.insert(point(9, 9), certified(ABSTAIN, 0.0))
    assert (abstained.abstained, abstained.scope, abstained.drawn_label) == (True, Scope.MEMORY, ABSTAIN)
    gone = memory.insert(point(0, 1), certified(0, 1.0))  # on the boundary
    assert (gone.radius, gone.label in (ABSTAIN, 1)) == (0.0, True)
    assert len(memory) == 2
    for certificate in (over, supplied, cut, further, abstained, gone):
        assert Certificate.from_json(json.loads(json.dumps(certificate.to_json()))) == certificate


def test_an_answer_is_no_surer_than_the_region_that_gives_it(where: str, certified: Certified) -> None:
    with Memory(where) as memory:
        assert memory.insert(point(0, 0), certified(1, 1.0, alpha=0.3)).alpha == 0.3
    with Memory(where) as memory:  # one that knows regions from the store alone
        over = memory.insert(point(0.25, 0), certified(2, 3.0))
        assert (over.overruled, over.alpha) == (True, 0.3)
        assert "wrong with probability at most 0.3" in str(over)
        assert memory.insert(point(0.5, 0), certified(ABSTAIN, 0.0)).alpha == 0.3
        assert memory.insert(point(-0.25, 0), certified(1, 0.1)).alpha == 0.3
        assert memory.insert(point(5, 0), certified(2, 0.5)).alpha == 0.001
        further = memory.insert(point(0.9, 0), certified(1, 2.0))  # by its own draws
        assert (further.radius, further.alpha) == (2.0, 0.001)
        less = memory.insert(point(5.1, 0), certified(1, 0.1, alpha=0.3))
        assert (less.overruled, less.alpha) == (True, 0.3), "nor surer than its own draws"
    assert over.as_drawn().alpha == 0.001
    assert Certificate.from_json(json.loads(json.dumps(over.to_json()))) == over


def test_the_same_again_changes_nothing_and_says_the_same(where: str, certified: Certified) -> None:
    rng = np.random.default_rng(0)
    inputs = [(point(*rng.random(2)), certified(int(rng.integers(3)), float(rng.random() / 4))) for _ in range(40)]
    memory = Memory(where)
    for x, own in inputs:
        once = memory.insert(x, own)
        regions = len(memory)
        assert memory.insert(x, own) == once
        assert len(memory) == regions


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_same_as_a_list_of_balls_on_real_images(tmp_path: Path, certified: Certified, norm: str) -> None:
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    images = digits.images[:400, None].astype(np.float32) / np.float32(16)
    rng = np.random.default_rng(0)
    scale = 1.5 if norm == "l2" else 8.0
    memory = Memory(tmp_path / "regions.sqlite")
    stored: list[tuple[np.ndarray, int, float]] = []
    cut = 0
    for image, label in zip(images, digits.target[:400], strict=True):
        own = certified(int(label), float(rng.random() * scale), norm)
        got = memory.insert(image, own)
        flat = np.stack([x for x, _, _ in stored]) if stored else np.empty((0, 64), dtype=np.float32)
        near = [
            Neighbour(i + 1, c, r, float(d), tolerance(64))
            for i, ((_, c, r), d) in enumerate(zip(stored, distances(image, flat, norm), strict=True))
        ]
        ruling = decide(own.label, own.radius, near)
        assert (got.label, got.radius) == (ruling.label, ruling.radius), "to the last bit"
        assert got.from_draws is not None
        assert got.from_draws.cut_by == ruling.cut_by
        cut += got.cut
        if ruling.store:
            stored.append((image.reshape(-1), ruling.label, ruling.radius))
    assert cut > 5
    assert len(memory) == len(stored)
    assert memory.check() == []


def test_two_who_have_it_open_see_each_others_regions(where: str, certified: Certified) -> None:
    one, two = Memory(where), Memory(where)
    one.insert(point(0, 0), certified(1, 1.0))
    assert two.insert(point(0.5, 0), certified(2, 1.0)).overruled
    two.insert(point(5, 0), certified(2, 1.0))
    assert one.insert(point(5, 0.5), certified(1, 1.0)).overruled
    assert len(one) == len(two) == 2


def test_threads_may_share_one(where: str, certified: Certified) -> None:
    memory = Memory(where)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            memory.insert(point(*rng.random(2)), certified(int(rng.integers(3)), float(rng.random() / 4)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.check() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classifier": {"fingerprint": "g", "kind": "Net", "backend": {"name": "eager"}}}, "another classifier"),
        ({"classifier": {"fingerprint": "f", "kind": "Net", "backend": {"name": "onnx"}}}, "another classifier"),
        ({"noise": {"name": "laplace", "norm": "l2"}}, "another noise"),
        ({"noise": {"name": "gaussian", "norm": "l2", "grid": 1 / 255}}, "another noise"),
    ],
    ids=["fingerprint", "backend", "noise", "grid"],
)
def test_it_belongs_to_one_classifier_and_noise(
    where: str, certified: Certified, change: dict[str, Any], words: str
) -> None:
    memory = Memory(where)
    memory.insert(point(0, 0), certified(1, 1.0))
    memory.insert(point(9, 0), certified(1, 0.5, noise={"name": "gaussian", "norm": "l2", "sigma": 9.0, "offset": 0.1}))
    for opened in (memory, Memory(where)):
        with pytest.raises(InputError, match=f"belongs to {words}"):
            opened.insert(point(3, 0), certified(1, 1.0, **change))
    with pytest.raises(InputError, match="belongs to another norm"):
        memory.insert(point(3, 0), certified(1, 1.0, "l1"))
    with pytest.raises(InputError, match="belongs to another shape"):
        memory.insert(point(3, 0, 0), certified(1, 1.0))
    with pytest.raises(InputError, match=r"inputs of shape \[2\], got \[3\]"):
        memory.answer(point(3, 0, 0))
    assert len(memory) == 2


def test_what_cannot_be_kept_is_refused_before_anything_is_made(tmp_path: Path, certified: Certified) -> None:
    memory = Memory(tmp_path / "m")
    with pytest.raises(InputError, match="a function without a fingerprint could be any"):
        memory.insert(point(0, 0), certified(1, 1.0, classifier={"fingerprint": None}))
    with pytest.raises(InputError, match="got norm l0"):
        memory.insert(point(0, 0), certified(1, 1.0, "l0"))
    with pytest.raises(InputError, match="inserted already"):
        memory.insert(point(0, 0), certified(1, 1.0, scope=Scope.MEMORY))
    with pytest.raises(InputError, match="does not exist"):
        memory.check()
    assert list(tmp_path.iterdir()) == []


def test_images_of_eight_bits_stay_so(where: str, certified: Certified) -> None:
    memory = Memory(where)
    image = (np.arange(12, dtype=np.uint8).reshape(3, 2, 2) * 20).astype(np.float32) / np.float32(255)
    memory.insert(image, certified(1, 0.1))
    memory.insert(image + np.float32(1e-3), certified(1, 0.2))
    (first, x), (second, y) = memory.regions()
    assert (len(first.input), len(second.input)) == (12, 48)
    assert x.tobytes() == image.tobytes()
    assert y.tobytes() == (image + np.float32(1e-3)).tobytes()


def test_a_file_that_was_replaced_is_not_written_to(tmp_path: Path, certified: Certified) -> None:
    path = tmp_path / "m"
    memory = Memory(path)
    memory.insert(point(0, 0), certified(1, 1.0))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(InputError, match="cannot be used"):
        memory.insert(point(5, 0), certified(2, 1.0))
    with Memory(path) as new:
        new.insert(point(9, 0), certified(2, 1.0))
    with pytest.raises(InputError, match="was replaced while it was open"):
        memory.insert(point(5, 0), certified(2, 1.0))
    with pytest.raises(InputError, match="was replaced while it was open"):
        memory.answer(point(0, 0))


def test_an_older_copy_that_is_put_back_is_noticed(tmp_path: Path, certified: Certified) -> None:
    """With regions of its own in the place of those that are known, an overlap could go unseen."""
    path, copy = tmp_path / "m", tmp_path / "copy"
    with Memory(path) as memory:
        memory.insert(point(0, 0), certified(0, 0.1))
    shutil.copy(path, copy)
    memory = Memory(path)
    for i in range(3):
        memory.insert(point(10 + i, 0), certified(0, 0.1))
    assert len(memory) == 4
    with sqlite3.connect(copy) as older, sqlite3.connect(path) as there:
        older.backup(there)
    older.close()
    there.close()
    with pytest.raises(InputError, match="put back to an older state"):
        memory.answer(point(0, 0))
    with Memory(path) as other:
        for i in range(3):
            other.insert(point(50 + 10 * i, 0), certified(1, 3.0))
        with pytest.raises(InputError, match="put back to an older state"):
            memory.insert(point(51, 0), certified(0, 3.0))
        assert other.check() == []
    assert memory.check() == [], "it reads everything again"
    assert memory.insert(point(51, 0), certified(0, 3.0)).overruled


def test_a_forked_process_is_refused(where: str, certified: Certified) -> None:
    memory = Memory(where)
    memory.insert(point(0, 0), certified(1, 1.0))
    out, into = os.pipe()
    child = os.fork()
    if not child:
        for ask in (lambda: memory.answer(point(0, 0)), lambda: memory.insert(point(5, 0), certified(2, 1.0))):
            try:
                ask()
                os.write(into, b"answered ")
            except InputError as error:
                os.write(into, b"forked " if "before this process was forked" in str(error) else b"other ")
        os._exit(0)
    os.close(into)
    os.waitpid(child, 0)
    with os.fdopen(out, "rb") as pipe:
        assert pipe.read() == b"forked forked "
    assert memory.answer(point(0, 0)) is not None
    assert len(memory) == 1


def changed(path: Path, statement: str) -> Memory:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    return Memory(path)


def sealed(path: Path, certified: Certified) -> Path:
    with Memory(path) as memory:
        for i in range(5):
            memory.insert(point(3 * i, 0), certified(i % 2, 1.0))
    return path


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE regions SET radius = 1.5 WHERE id = 3", "region 3 is not as it was written"),
        ("UPDATE regions SET radius = 'x' WHERE id = 3", "region 3 is not as it was written"),
        ("UPDATE regions SET label = 7 WHERE id = 1", "region 1 is not as it was written"),
        ("UPDATE regions SET input = zeroblob(8) WHERE id = 5", "region 5 is not as it was written"),
        ("UPDATE regions SET about = CAST(about AS BLOB) WHERE id = 2", "region 2 is not as it was written"),
        ("UPDATE regions SET digest = 'x' WHERE id = 5", "region 5 is not as it was written"),
        ("DELETE FROM regions WHERE id = 2", "region 2 is missing"),
        ("DELETE FROM regions WHERE id = 5", "does not go up to region 5 as it says"),
        ("DELETE FROM regions", "does not go up to region 5 as it says"),
        ("UPDATE memory SET regions = 4", "does not go up to region 4 as it says"),
        ("UPDATE memory SET regions = 2 << 40", "does not go up to region"),
        ("UPDATE memory SET regions = 'x'", "does not say how many regions it has"),
        ("UPDATE memory SET owner = '{}'", "what it belongs to is not as it was written"),
        ("UPDATE memory SET owner = replace(owner, 'l2', 'l1')", "what it belongs to is not as it was written"),
        ("UPDATE memory SET owner = replace(owner, 'format', 'formal')", "is not as it was written"),
        (
            "UPDATE memory SET owner = replace(owner, '{\"format\": 2', '{\"format\": 1')",
            "has format 1, but .* reads 2",
        ),
        ("UPDATE memory SET owner = x'00ff'", "what it belongs to is not as it was written"),
        ("INSERT INTO memory SELECT * FROM memory", "what it belongs to is not as it was written"),
        ("DELETE FROM memory", "what it belongs to is not as it was written"),
        ("DROP TABLE regions", "no such table"),
    ],
)
def test_damage_is_said_in_one_sentence(tmp_path: Path, certified: Certified, statement: str, words: str) -> None:
    path = sealed(tmp_path / "m.sqlite", certified)
    with pytest.raises(InputError, match=words):
        changed(path, statement).insert(point(1, 1), certified(1, 1.0))
    if "owner" not in statement and "FROM memory" not in statement and "DROP" not in statement:
        assert [words in sentence for sentence in Memory(path).check()] == [True]


def test_check_finds_regions_that_overlap(tmp_path: Path, certified: Certified) -> None:
    """Sealed as if all were well."""
    path = sealed(tmp_path / "a.sqlite", certified)
    with Memory(path) as memory:
        memory.insert(point(0.5, 5.5), certified(0, 1.0))
        last = list(memory.regions())[-1][0]
        store = SqliteStore(path)
        with store.writing():
            store.add(Region.of(last.digest, 7, 1, 1.0, encode(point(0.5, 5)), {"alpha": 0.001}))
        store.close()
    memory = Memory(path)
    assert memory.check() == ["regions 6 and 7 are of the classes 0 and 1 and overlap"]
    with pytest.raises(InputError, match="memory is damaged"):
        memory.answer(point(0.5, 5.25))


def test_a_region_of_another_memory_is_refused(tmp_path: Path, certified: Certified) -> None:
    path, other = (sealed(tmp_path / name, certified) for name in ("a.sqlite", "b.sqlite"))
    with sqlite3.connect(path) as connection:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("DELETE FROM regions WHERE id = 1")
        connection.execute("INSERT INTO regions SELECT * FROM other.regions WHERE id = 1")
    connection.close()
    with pytest.raises(InputError, match="region 1 is not as it was written"):
        Memory(path).answer(point(0, 0))


def test_an_input_that_is_null_is_said_in_one_sentence(tmp_path: Path, certified: Certified) -> None:
    """NOT NULL keeps it out of a whole file, not out of one whose schema was changed."""
    path = sealed(tmp_path / "m.sqlite", certified)
    with Memory(path) as opened:
        opened.answer(point(0, 0))
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'BLOB NOT NULL', 'BLOB')")
        connection.close()
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE regions SET input = NULL WHERE id = 1")
        connection.close()
        with pytest.raises(InputError, match="memory is damaged: an input in it is not one"):
            opened.answer(point(0, 0))
    for ask in (lambda m: m.answer(point(0, 0)), lambda m: m.insert(point(9, 9), certified(1, 1.0)), len):
        with Memory(path) as memory, pytest.raises(InputError, match="region 1 is not as it was written"):
            ask(memory)
    with Memory(path) as memory, pytest.raises(InputError, match="region 1 is not as it was written"):
        list(memory.regions())


@pytest.mark.parametrize("radius", [2.5e26, 1e30, 1e300, 1.7e308])
def test_huge_radii_are_kept_and_said(where: str, certified: Certified, radius: float) -> None:
    with Memory(where) as memory:
        first = memory.insert(point(0, 0), certified(1, 1.0))
        assert first.radius == 1.0
        cut = memory.insert(point(3e38, 0), certified(2, radius))
        assert cut.radius <= min(radius, 3.1e38)
        assert (cut.radius < radius) == (radius > 3e38)
        if cut.cut:
            assert f"cut from {radius!r} beside region 1" in cut.reason
        same = memory.insert(point(0, 0.5), certified(1, radius))
        assert same.label == 1
        assert memory.check() == []
        assert len(memory) >= 2
        assert memory.info()["regions"] == len(memory)
    with Memory(where) as again:
        found = again.answer(point(3e38, 0))
        assert found is not None
        assert found.label == 2


def test_what_cannot_be_said_is_not_kept(where: str, certified: Certified, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the region was stored would leave a region that nobody was told of."""
    with Memory(where) as memory:
        memory.insert(point(0, 0), certified(1, 1.0))

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(memory_module, "ruled", broken)
            with pytest.raises(ZeroDivisionError):
                memory.insert(point(5, 0), certified(2, 1.0))
        assert len(memory) == 1
        assert memory.insert(point(5, 0), certified(2, 1.0)).radius == 1.0


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with pytest.raises(InputError, match=r"cannot lock files; choose a local disk, or keep the memory in PostgreSQL"):
        Memory(tmp_path / "m").insert(point(0, 0), certified(1, 1.0))
    assert list(tmp_path.iterdir()) == []


def test_who_waited_too_long_is_told_why(tmp_path: Path, certified: Certified, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sealed(tmp_path / "m.sqlite", certified)
    monkeypatch.setattr(sqlite_module, "PATIENCE", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Memory(path) as memory:
        with pytest.raises(
            InputError, match=r"was locked for .*another process keeps writing, or its file system cannot"
        ):
            memory.insert(point(30, 0), certified(1, 1.0))
        other.execute("ROLLBACK")
        other.close()
        assert memory.insert(point(30, 0), certified(1, 1.0)).radius == 1.0


def test_without_hard_links_it_is_made_as_well(
    tmp_path: Path, certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    sealed(tmp_path / "m.sqlite", certified)
    assert [path.name for path in tmp_path.iterdir()] == ["m.sqlite"]
    with Memory(tmp_path / "m.sqlite") as memory:
        assert len(memory) == 5


def test_a_path_that_is_no_text(tmp_path: Path, certified: Certified) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 ?#%20.sqlite")
    with Memory(path) as memory:
        memory.insert(point(0, 0), certified(1, 1.0))
    with Memory(path) as memory:
        assert len(memory) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_no_memory(tmp_path: Path, certified: Certified) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign.sqlite"
    text.write_text("not a database, but long enough to be taken for one" * 100)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE regions (id INTEGER)")
    connection.close()
    for path, words in ((text, "file is not a database"), (foreign, "but not a memory"), (tmp_path, "unable")):
        with pytest.raises(InputError, match=words) as caught:
            Memory(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be used"):
        Memory(tmp_path / "no" / "folder").insert(point(0, 0), certified(1, 1.0))
    path = sealed(tmp_path / "m.sqlite", certified)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"cannot be used|damaged"):
        Memory(path).insert(point(1, 1), certified(1, 1.0))


def test_a_copy_of_the_file_is_the_memory(tmp_path: Path, certified: Certified) -> None:
    path = sealed(tmp_path / "m.sqlite", certified)
    assert [file.name for file in tmp_path.iterdir()] == ["m.sqlite"], "closed, it is one file"
    shutil.copy(path, tmp_path / "copy")
    assert Memory(tmp_path / "copy").owner == Memory(path).owner


def test_an_address_that_does_not_answer() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match="memory PostgreSQL cannot be used") as caught:
        Memory("postgresql://postgres:secret@127.0.0.1:1/postgres")
    assert "secret" not in str(caught.value)


def test_what_is_in_it(where: str, certified: Certified) -> None:
    memory = Memory(where)
    for i in range(5):
        memory.insert(point(3 * i, 0), certified(i % 2, 1.0 + i / 10))
    about = memory.info()
    assert (about["regions"], about["by_class"], about["norm"], about["shape"]) == (5, {"0": 3, "1": 2}, "l2", [2])
    assert about["radius"] == {"least": 1.0, "median": 1.2, "largest": 1.4}
    assert about["classifier"]["fingerprint"] == "f"
    assert "postgres@" not in about["memory"], "no user or password is shown"
