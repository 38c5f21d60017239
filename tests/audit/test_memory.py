"""Runs through a memory: killed between insertion and record they come out the same; what it denies is found."""

import dataclasses
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from smoothcert.analysis import read
from smoothcert.attack.campaign import refuse_scopes
from smoothcert.audit import audit_run
from smoothcert.audit.memory import check_memory, recall
from smoothcert.audit.rebuild import certified
from smoothcert.audit.redraw import draw_fresh, redraw
from smoothcert.core.errors import InputError
from smoothcert.datasets import Subset, load
from smoothcert.engine import Smoothed
from smoothcert.memory import Memory
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, FromDraws
from smoothcert.runs import Record, Run
from smoothcert.workflows.certify import certify_into, run_config

SPEC = Architecture("lenet", 10, (1, 8, 8))
MODEL = build(SPEC, seed=0)
DATA = load("digits", "test")
QUICK = Fixed(n0=20, n=200)
SUBSET = Subset(every=7, limit=20)


class Failing(Memory):
    """Is killed right after an insertion: the region is stored, its record is not written."""

    left = 5

    def insert(self, x: Any, certificate: Certificate) -> Certificate:
        got = super().insert(x, certificate)
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return got


def smoothed(memory: Memory | None, seed: int = 0) -> Smoothed:
    noise = Gaussian(0.25, grid=1 / 16)
    return Smoothed(MODEL, 10, noise, seed, workers=1, memory=memory, input_range=(0, 1), input_shape=(1, 8, 8))


def certify(out: Path, memory: Memory) -> Run:
    g = smoothed(memory)
    run = Run.start(out, run_config(g, QUICK, DATA, SUBSET, {"file": "net"}))
    certify_into(run, g, QUICK, DATA)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remembered")
    with Memory(path / "m.sqlite") as memory:
        certify(path / "run", memory)
    return path


def content(run: Run) -> list[dict[str, Any]]:
    lines = (run.path / "records.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def test_an_honest_run_holds_and_the_memory_bears_it_out(folder: Path) -> None:
    run = Run.open(folder / "run")
    audit = audit_run(run)
    assert (audit.findings, len(audit.records)) == ((), 20)
    memory = Memory(folder / "m.sqlite")
    assert list(recall(run, audit.records, memory, DATA)) == []
    assert run.config["memory"] == {"id": memory.owner["id"] if memory.owner else None}
    again = certified(run, MODEL, 10, workers=1)
    assert redraw(run, audit.records, again, DATA).findings == ()
    assert draw_fresh(run, audit.records, smoothed(None, seed=5), DATA, 200) == ()


def test_an_older_copy_of_the_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    """It has the same id, and lacks regions that were acknowledged."""
    run = Run.open(folder / "run")
    shutil.copytree(folder / "run", tmp_path / "run")
    shutil.copy(folder / "m.sqlite", tmp_path / "old.sqlite")
    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        old.execute("DELETE FROM regions WHERE id > 3")
    old.close()
    with Memory(tmp_path / "old.sqlite") as memory:
        assert 0 < len(memory) < len(Memory(folder / "m.sqlite"))
        with pytest.raises(InputError, match="it is an older copy"):
            check_memory(run, memory)
        again = Run.open(tmp_path / "run")
        lines = (again.path / "records.jsonl").read_text().splitlines(keepends=True)
        (again.path / "records.jsonl").write_text("".join(lines[:-1]))
        with pytest.raises(InputError, match=r"does not answer input .* as it is recorded"):
            certify_into(again, smoothed(memory), QUICK, DATA)
        assert (again.path / "records.jsonl").read_text() == "".join(lines[:-1])


def test_a_kill_between_insertion_and_record_changes_nothing(folder: Path, tmp_path: Path) -> None:
    memory = Failing(tmp_path / "m.sqlite")
    with pytest.raises(KeyboardInterrupt):
        certify(tmp_path / "run", memory)
    assert len(content(Run.open(tmp_path / "run"))) == 5
    with Memory(tmp_path / "m.sqlite") as again:
        run = certify(tmp_path / "run", again)
        whole = Memory(folder / "m.sqlite")
        assert content(run) == content(Run.open(folder / "run"))
        assert [r for r, _ in again.regions()] == [r for r, _ in whole.regions()], "nothing was inserted twice"


def test_the_note_says_what_the_memory_changed(folder: Path, tmp_path: Path) -> None:
    row, old = certified_one(folder)
    changes = {
        "0 answers were overruled, 0 abstentions answered and 0 regions cut": {},
        "1 answers were overruled, 0 abstentions answered and 0 regions cut": {"label": (old.label + 1) % 10},
        "0 answers were overruled, 1 abstentions answered and 0 regions cut": {"from_draws": FromDraws(-1, 0.0, "", 1)},
        "0 answers were overruled, 0 abstentions answered and 1 regions cut": {"radius": old.radius / 2},
    }
    for number, (words, change) in enumerate(changes.items()):
        results = read(rewritten(folder, tmp_path / str(number), row, **change).path)
        assert results.note == f"through the memory {words}; inputs were inserted in the order of their index"
        assert "20 of 20 certificates hold for the classifier that answers through its memory" in results.warnings[0]


def test_another_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    run = Run.open(folder / "run")
    other = Memory(tmp_path / "other.sqlite")
    with pytest.raises(InputError, match="is not the one"):
        check_memory(run, other)
    with pytest.raises(InputError, match="another configuration"):
        certify(folder / "run", other)
    with pytest.raises(InputError, match="answers through a memory; give it"):
        check_memory(run, None)
    with pytest.raises(InputError, match="another memory"):
        certify_into(run, smoothed(None), QUICK, DATA)
    plain = Run.start(tmp_path / "plain", {"indices": []})
    with pytest.raises(InputError, match="certified without a memory"):
        check_memory(plain, other)
    with pytest.raises(InputError, match="attack cannot ask a memory"):
        refuse_scopes(run.records())


def certified_one(folder: Path) -> tuple[int, Certificate]:
    """The first record that claims something."""
    records = Run.open(folder / "run").records()
    row = next(i for i, record in enumerate(records) if record.radius)
    certificate = records[row].certificate
    assert certificate is not None
    return row, certificate


def rewritten(folder: Path, out: Path, index: int, **changes: Any) -> Run:
    """The run with one certificate changed."""
    run = Run.open(folder / "run")
    records = run.records()
    made = Run.start(out, {k: v for k, v in run.config.items() if k != "format"})
    with made.writing() as writer:
        for row, record in enumerate(records):
            assert record.certificate is not None
            certificate = dataclasses.replace(record.certificate, **changes if row == index else {})
            writer.append(Record.of(record.index, record.label, certificate, 0.5))
    return made


def test_what_the_rule_does_not_allow_is_found(folder: Path, tmp_path: Path) -> None:
    row, old = certified_one(folder)
    assert old.from_draws is not None
    cases = {
        "votes": {"from_draws": dataclasses.replace(old.from_draws, radius=old.from_draws.radius + 1, cut_by=1)},
        "no region": {"from_draws": dataclasses.replace(old.from_draws, region=None)},
        "cut by nobody": {
            "radius": old.from_draws.radius / 2,
            "label": old.from_draws.label,
            "from_draws": _uncut(old),
        },
        "gone by itself": {"radius": 0.0, "label": -1, "from_draws": dataclasses.replace(_uncut(old), region=None)},
    }
    for name, changes in cases.items():
        found = audit_run(rewritten(folder, tmp_path / name.replace(" ", "-"), row, **changes)).findings
        assert {f.check for f in found} == {"radius" if name == "votes" else "memory"}, name
        assert {f.index for f in found} == {SUBSET.indices(len(DATA))[row]}


def _uncut(certificate: Certificate) -> Any:
    assert certificate.from_draws is not None
    return dataclasses.replace(certificate.from_draws, cut_by=None)


def test_what_the_memory_denies_is_found(folder: Path, tmp_path: Path) -> None:
    row, old = certified_one(folder)
    index = SUBSET.indices(len(DATA))[row]
    with Memory(folder / "m.sqlite") as memory:
        raised = rewritten(folder, tmp_path / "raised", row, radius=old.radius * 1.001)
        (finding,) = recall(raised, raised.records(), memory, DATA)
        assert (finding.check, finding.index) == ("memory", index)
        assert "the memory answers so as far as" in finding.sentence
        other = rewritten(folder, tmp_path / "other", row, label=(old.label + 1) % 10)
        (finding,) = recall(other, other.records(), memory, DATA)
        assert "is claimed, region" in finding.sentence
