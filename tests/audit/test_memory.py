"""Runs through a memory: killed between insertion and record they come out the same; what it denies is found."""

import dataclasses
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_runs import read_run, simulated_config

from smoothcert.analysis import read
from smoothcert.attack.campaign import refuse_scopes
from smoothcert.audit import audit_run
from smoothcert.audit.fresh import draw_fresh
from smoothcert.audit.memory import check_against_memory, refuse_other_memory
from smoothcert.audit.rebuild import rebuild
from smoothcert.audit.redraw import redraw
from smoothcert.core.errors import InputError
from smoothcert.datasets import Subset, load
from smoothcert.engine import Smoothed
from smoothcert.memory import Memory
from smoothcert.memory.distance import encode
from smoothcert.memory.store import Region
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, FromDraws
from smoothcert.runs import Record, Run
from smoothcert.workflows.recording import certify_into, run_config

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
    run = Run.start(out, run_config(g, QUICK, DATA, SUBSET))
    certify_into(run, g, QUICK, DATA)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remembered")
    with Memory(path / "m.sqlite") as memory:
        certify(path / "run", memory)
    return path


def content(run: Run) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_run(run.path)[1]]


def test_an_honest_run_holds_and_the_memory_bears_it_out(folder: Path) -> None:
    run = Run.open(folder / "run")
    audit = audit_run(run)
    assert (audit.findings, len(audit.records)) == ((), 20)
    memory = Memory(folder / "m.sqlite")
    assert list(check_against_memory(run, audit.records, memory, DATA)) == []
    assert memory.owner is not None
    assert run.config.memory == memory.owner["id"]
    again = rebuild(run, MODEL, 10, workers=1)
    assert redraw(run, audit.records, again, DATA).findings == ()
    assert draw_fresh(run, audit.records, smoothed(None, seed=5), DATA, 200) == ()


def test_an_older_copy_of_the_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    """It has the same id, and lacks regions that were acknowledged."""
    run = Run.open(folder / "run")
    shutil.copytree(folder / "run", tmp_path / "run")
    shutil.copy(folder / "m.sqlite", tmp_path / "old.sqlite")
    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        old.execute("DELETE FROM regions WHERE id > 3")
        old.execute("UPDATE memory SET regions = 3, digest = (SELECT digest FROM regions WHERE id = 3)")
    old.close()
    with Memory(tmp_path / "old.sqlite") as memory:
        assert 0 < len(memory) < len(Memory(folder / "m.sqlite"))
        with pytest.raises(InputError, match="it is an older copy"):
            refuse_other_memory(run, memory)
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
        there, wanted = ([dataclasses.replace(r, digest="") for r, _ in m.regions()] for m in (again, whole))
        assert there == wanted, "nothing was inserted twice"


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
        refuse_other_memory(run, other)
    with pytest.raises(InputError, match="was started with another memory"):
        certify(folder / "run", other)
    with pytest.raises(InputError, match="answers through a memory; give it"):
        refuse_other_memory(run, None)
    with pytest.raises(InputError, match="another memory"):
        certify_into(run, smoothed(None), QUICK, DATA)
    plain = Run.start(tmp_path / "plain", simulated_config([0]))
    with pytest.raises(InputError, match="certified without a memory"):
        refuse_other_memory(plain, other)
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
    made = Run.start(out, run.config)
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
        (finding,) = check_against_memory(raised, raised.records(), memory, DATA)
        assert (finding.check, finding.index) == ("memory", index)
        assert "the memory answers so as far as" in finding.sentence
        other = rewritten(folder, tmp_path / "other", row, label=(old.label + 1) % 10)
        (finding,) = check_against_memory(other, other.records(), memory, DATA)
        assert "is claimed, region" in finding.sentence


def stored(path: Path, id_: int, label: int, radius: float, input_: bytes, about: str) -> Memory:
    """The memory with a region written by hand, and every digest from there on made again, as a forger would."""
    with Memory(path) as memory:
        found = {region.id: region for region, _ in memory.regions()}
        last = memory.owner["id"] if memory.owner is not None else ""
    values = {number: (r.label, r.radius, r.input, r.about) for number, r in found.items()}
    values[id_] = (label, radius, input_, about)
    with sqlite3.connect(path) as store:
        for number, (*what, said) in sorted(values.items()):
            region = Region.of(last, number, *what, json.loads(said))
            store.execute(
                "INSERT OR REPLACE INTO regions VALUES (?, ?, ?, ?, ?, ?)",
                (region.id, region.label, region.radius, region.input, region.about, region.digest),
            )
            last = region.digest
        store.execute("UPDATE memory SET regions = ?, digest = ?", (len(values), last))
    store.close()
    return Memory(path)


def last_region(folder: Path) -> Region:
    with Memory(folder / "m.sqlite") as memory:
        return [region for region, _ in memory.regions()][-1]


def test_a_region_larger_than_its_draws_show_is_found(folder: Path, tmp_path: Path) -> None:
    """A radius and the region behind it are raised together: the memory answers so, and no draw backs it."""
    row, old = certified_one(folder)
    said = old.from_draws
    assert said is not None
    assert said.region == 1
    shutil.copy(folder / "m.sqlite", tmp_path / "m.sqlite")
    with Memory(folder / "m.sqlite") as memory:
        first = next(region for region, _ in memory.regions())
    larger = first.radius * 1.01
    run = rewritten(folder, tmp_path / "run", row, radius=larger)
    audit = audit_run(run)
    index = SUBSET.indices(len(DATA))[row]
    assert (audit.findings, audit.of_memory) == ((), {index}), "the votes hold, and do not show that radius"
    assert (audit.holding(), audit.holding(memory_asked=True)) == (19, 20)
    with stored(tmp_path / "m.sqlite", 1, first.label, larger, first.input, first.about) as memory:
        assert memory.check() == []
        found = list(check_against_memory(run, audit.records, memory, DATA))
    assert [(f.check, f.index) for f in found] == [("memory", index)]
    assert "whose draws show class" in found[0].sentence


def test_a_region_that_no_record_made_backs_nothing(folder: Path, tmp_path: Path) -> None:
    """An abstention is answered from a region that was put into the memory by hand."""
    records = Run.open(folder / "run").records()
    row = next(i for i, record in enumerate(records) if record.abstained)
    old, index = records[row].certificate, records[row].index
    assert old is not None
    assert old.from_draws is not None
    shutil.copy(folder / "m.sqlite", tmp_path / "m.sqlite")
    last = last_region(folder)
    x = DATA.tensors([index])[0].numpy()
    said = dataclasses.replace(old.from_draws, region=last.id + 1)
    run = rewritten(folder, tmp_path / "run", row, label=3, radius=0.001, from_draws=said)
    audit = audit_run(run)
    assert (audit.findings, audit.of_memory, audit.holding()) == ((), {index}, 19)
    with stored(tmp_path / "m.sqlite", last.id + 1, 3, 0.001, encode(x), last.about) as memory:
        assert memory.check() == []
        (finding,) = check_against_memory(run, audit.records, memory, DATA)
        assert (finding.check, finding.index) == ("memory", index)
    beside = encode(x + np.float32(1e-4))
    with stored(tmp_path / "m.sqlite", last.id + 1, 3, 0.002, beside, last.about) as memory:
        (finding,) = check_against_memory(run, audit.records, memory, DATA)
        assert "which no record of this run that holds made" in finding.sentence


def test_regions_of_doubtful_records_back_nothing(folder: Path) -> None:
    run = Run.open(folder / "run")
    row, _ = certified_one(folder)
    index = SUBSET.indices(len(DATA))[row]
    with Memory(folder / "m.sqlite") as memory:
        found = list(check_against_memory(run, run.records(), memory, DATA, doubtful={index}))
    assert index in {finding.index for finding in found}


def test_a_region_that_is_not_there_answers_nothing(folder: Path, tmp_path: Path) -> None:
    row, old = certified_one(folder)
    assert old.from_draws is not None
    run = rewritten(folder, tmp_path / "run", row, from_draws=dataclasses.replace(old.from_draws, region=999))
    with Memory(folder / "m.sqlite") as memory:
        (finding,) = check_against_memory(run, run.records(), memory, DATA)
    assert "the memory has no such region" in finding.sentence
