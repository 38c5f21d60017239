import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_runs import read_run, simulated_config, write_run

from smoothcert.core.errors import InputError
from smoothcert.core.files import DRAFT
from smoothcert.core.plugins import Plugin
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, Scope, converse
from smoothcert.runs import Record, Run, RunConfig
from smoothcert.runs import locking as locking_module
from smoothcert.runs.made import command_line
from smoothcert.stats import Tally

PROCEDURE = Fixed(n0=10, n=1000)
NOISE = Gaussian(0.5).describe()


def config(**changes: Any) -> RunConfig:
    about = {"noise": NOISE, "procedure": PROCEDURE.describe(), "labels": (0, 0, 0)} | changes
    return simulated_config(about.pop("indices", (0, 20, 40)), **about)


CONFIG = config()


def certificate(votes: tuple[int, int] = (990, 10)) -> Certificate:
    made = converse(PROCEDURE.certify(Gaussian(0.5)), lambda ask: Tally(votes) if ask.n > 10 else Tally((10, 0)))
    return replace(made, noise=NOISE, classifier=CONFIG.classifier, input_id="i")


def record(index: int, votes: tuple[int, int] = (990, 10), **changes: Any) -> Record:
    return Record.of(index, label=0, certificate=replace(certificate(votes), **changes), seconds=0.125)


def finished(path: Path) -> Run:
    run = Run.start(path, CONFIG)
    with run.writing() as writer:
        for index in (0, 20, 40):
            writer.append(record(index, (990 - index, 10 + index)))
    return run


def lines(run: Run) -> list[bytes]:
    return (run.path / "records.jsonl").read_bytes().splitlines(keepends=True)


def test_records_come_back_to_the_last_bit(tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", CONFIG)
    with run.writing() as writer:
        for index in (40, 0):
            writer.append(record(index))
    opened = Run.open(str(tmp_path / "run"))
    back = opened.records()
    assert back == [record(0), record(40)], "in the order of the plan"
    assert back[0].radius == record(0).radius
    assert back[0].correct
    assert not back[0].abstained
    assert opened.certificates() == [certificate(), certificate()], "complete, though a line has only what is its own"


def test_a_line_says_only_what_is_its_own(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    own = {"noise": {**NOISE, "offset": 0.125}, "scope": Scope.OWN, "seed": 0}
    with run.writing() as writer:
        writer.append(record(0))
        writer.append(record(20, **own))
    first, second = (json.loads(line)["certificate"] for line in lines(run))
    assert {"classifier", "noise", "procedure", "seed", "alpha", "norm", "scope"}.isdisjoint(first)
    assert set(second) - set(first) == {"noise", "scope"}
    assert run.certificates()[1] == record(20, **own).certificate


def test_a_torn_last_line_is_dropped_on_resume(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    with run.writing() as writer:
        writer.append(record(0))
    whole = (tmp_path / "records.jsonl").read_bytes()
    for cut in range(1, len(whole), 97):
        (tmp_path / "records.jsonl").write_bytes(whole + whole[:cut])
        assert run.torn
        assert [r.index for r in run.records()] == [0]
        with run.writing() as writer:
            writer.append(record(20))
        assert [r.index for r in run.records()] == [0, 20], "and the chain goes on"
    assert (tmp_path / "records.jsonl").read_bytes().count(b"\n") == 2


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "fewer inputs": (
        {"indices": (0,), "labels": (0,)},
        "was started on 3 inputs of digits; this command asks for 1. Give another --out, or the old ",
    ),
    "other data": (
        {"data": replace(CONFIG.data, name="mnist")},
        r"was started on digits \(test\); this command asks for mnist \(test\). Give another --out, or the old --data",
    ),
    "changed data": ({"data": replace(CONFIG.data, fingerprint="e" * 64)}, "on other data of the name digits"),
    "sigma": (
        {"noise": {**NOISE, "sigma": 0.25}},
        r"with sigma 0.5; this command asks for 0.25. Give another --out, or the old --sigma",
    ),
    "noise": ({"noise": {"name": "laplace", "scale": 0.5}}, "with gaussian noise; .* asks for laplace.*--noise"),
    "n": (
        {"procedure": Fixed(n0=10, n=2000).describe()},
        "with n = 1000; this command asks for 2000. Give another --out, or the old --n",
    ),
    "alpha": ({"procedure": Fixed(n0=10, n=1000, alpha=0.01).describe()}, "with alpha = 0.001; .* 0.01.*--alpha"),
    "seed": ({"seed": 1}, "with seed 0; this command asks for 1. Give another --out, or the old --seed"),
    "model": ({"classifier": {**CONFIG.classifier, "fingerprint": "0"}}, "with another model. .*the old --model"),
    "backend": ({"classifier": {**CONFIG.classifier, "backend": {"name": "ort"}}}, "the backend eager;.*--backend"),
    "batch": ({"classifier": {**CONFIG.classifier, "batch": 64}}, "the batch size 128;.*64.*the old --batch-size"),
    "memory": ({"memory": "m"}, "without --memory. Give another --out, or leave --memory out"),
    "search": ({"sigma_search": {"method": "grid"}}, "without --sigma-per-input. Give another --out, or leave"),
    "plug-in": ({"plugins": (Plugin("mine.py", "0"),)}, "without --plugin. Give another --out, or leave --plugin out"),
    "anything": ({"num_classes": 3}, "with num_classes 2; this command asks for 3. .* or the old settings"),
}


def test_the_same_configuration_resumes(tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", CONFIG, command="smoothcert certify")
    with run.writing() as writer:
        writer.append(record(0))
    before = (tmp_path / "run" / "run.json").read_bytes()
    again = Run.start(tmp_path / "run", CONFIG, command="another one")
    assert len(again.records()) == 1
    assert again.made.command == "smoothcert certify", "when and how it was made is beside what must be equal"
    assert (tmp_path / "run" / "run.json").read_bytes() == before


@pytest.mark.parametrize("what", DIFFERENT)
def test_another_configuration_is_refused_in_the_users_words(tmp_path: Path, what: str) -> None:
    Run.start(tmp_path / "run", CONFIG)
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    change, words = DIFFERENT[what]
    with pytest.raises(InputError, match=words) as refused:
        Run.start(tmp_path / "run", config(**change))
    assert str(refused.value).startswith(f"{tmp_path / 'run'} was started")
    assert {p: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before


def test_what_a_run_had_and_the_command_has_not_is_named(tmp_path: Path) -> None:
    Run.start(tmp_path, config(memory="m", sigma_search={"method": "grid", "steps": 3}))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"sigma_search": {"method": "grid", "steps": 3}}, "was started with --memory. Give .* or the old --memory"),
        ({"memory": "n", "sigma_search": {"method": "grid", "steps": 3}}, "with another memory. Give"),
        ({"memory": "m", "sigma_search": {"method": "grid", "steps": 9}}, "with 3 steps of the search;.*--sigma-steps"),
        ({"memory": "m"}, "was started with --sigma-per-input. Give"),
    ]
    for change, words in changes:
        with pytest.raises(InputError, match=words):
            Run.start(tmp_path, config(**change))


def test_a_place_holds_a_run_or_nothing(tmp_path: Path) -> None:
    assert Run.at(tmp_path / "run") is None
    assert not (tmp_path / "run").exists()
    Run.start(tmp_path / "run", CONFIG)
    there = Run.at(tmp_path / "run")
    assert there is not None
    assert there.planned == (0, 20, 40)
    with pytest.raises(InputError, match="exists and is not a run"):
        Run.at(tmp_path)


def test_folders_of_others_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a run"):
        Run.start(tmp_path, CONFIG)
    with pytest.raises(InputError, match="exists and is not a run"):
        Run.start(tmp_path / "letter.txt", CONFIG)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_a_configuration_that_was_being_written_is_started_again(tmp_path: Path) -> None:
    (tmp_path / f"{DRAFT}0123456789abcdef").write_text('{"format"')
    assert Run.start(tmp_path, CONFIG).planned == (0, 20, 40)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    (tmp_path / f"{DRAFT}0123456789abcdef").write_text('{"format"')
    Run.start(tmp_path, CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "damaged or changed: it is not JSON"),
        ("[]", "it is not a run of smoothcert"),
        ('{"format": 3}', "is of format 3, which an older version of smoothcert wrote; this version reads format 4"),
        ('{"format": 2}', "is of format 2, which an older version of smoothcert wrote; this version reads format 4"),
        ('{"format": 99}', "is of format 99, which a newer version of smoothcert wrote"),
        ('{"format": 4}', "its settings are not those that its digest was made of"),
        ('{"format": 3, "format": 3}', "'format' stands twice in one object"),
    ],
)
def test_damaged_configurations_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=words):
        Run.open(tmp_path)


def test_a_setting_changed_by_hand_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path)
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"sigma": 0.5', '"sigma": 0.75'))
    with pytest.raises(InputError, match=r"run.json was damaged or changed: its settings are not those"):
        Run.open(run.path)
    (tmp_path / "run.json").write_text(text.replace('"command": ""', '"command": "another"'))
    assert Run.open(run.path).made.command == "another", "nothing depends on it"
    (tmp_path / "run.json").write_text(text.replace('"command": ""', '"command": 7'))
    assert len(Run.open(run.path).records()) == 3


def test_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no readable run\.json"):
        Run.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, b, c: [a.replace(b'"radius":', b'"radius":1'), b, c], "line 1 was changed after it was written"),
        (lambda a, b, c: [a, b, c.replace(b'"label":0', b'"label":1', 1)], "line 3 was changed"),
        (lambda a, b, c: [a, c], "line 2 does not follow the line before it"),
        (lambda a, b, c: [b, c], "line 1 does not follow the line before it"),
        (lambda a, b, c: [b, a, c], "line 1 does not follow"),
        (lambda a, b, c: [a, c, b], "line 2 does not follow"),
        (lambda a, b, c: [a, b, b, c], "line 3 does not follow"),
        (lambda a, b, c: [a, b"\n", b, c], "line 2 was changed"),
        (lambda a, b, c: [a, b"{broken\n", c], "line 2 was changed"),
    ],
    ids=["changed", "last changed", "missing", "first missing", "swapped", "last swapped", "added", "empty", "broken"],
)
def test_a_line_that_is_not_as_it_was_written_is_one_sentence(tmp_path: Path, change: Any, words: str) -> None:
    run = finished(tmp_path)
    (tmp_path / "records.jsonl").write_bytes(b"".join(change(*lines(run))))
    with pytest.raises(InputError, match=rf"records.jsonl, {words}.*; delete that line and all below it, and run"):
        Run.open(tmp_path).records()


def test_records_of_another_run_do_not_follow(tmp_path: Path) -> None:
    run, other = finished(tmp_path / "a"), Run.start(tmp_path / "b", config(seed=1))
    (other.path / "records.jsonl").write_bytes(b"".join(lines(run)))
    with pytest.raises(InputError, match="line 1 does not follow the line before it"):
        other.records()


def test_an_auditor_gets_every_line_with_all_that_is_wrong(tmp_path: Path) -> None:
    """By a careful forger: every digest is as it should be."""
    settings, (first, *_) = read_run(finished(tmp_path).path)
    strange = {**first, "index": 7}
    foreign = {**first, "index": 20, "certificate": first["certificate"] | {"seed": 1, "noise": {"name": "other"}}}
    run = Run.open(write_run(tmp_path, settings, [first, {"index": 40}, strange, first, foreign]))
    file = tmp_path / "records.jsonl"
    file.write_bytes(file.read_bytes() + b'{"torn')
    entries = list(run.entries())
    assert [[finding.check for finding in entry.findings] for entry in entries] == [
        [], ["damaged"], ["not planned"], ["repeated"], ["seed", "noise"]
    ]  # fmt: skip
    assert [entry.record and entry.record.index for entry in entries] == [0, None, 7, 0, 20]
    assert entries[1].findings[0].where == "line 2"
    assert entries[2].findings[0].where == "input 7"
    assert run.torn
    for change, words in [
        ([first, {"index": 40}], "line 2 cannot be read"),
        ([first, strange], "line 2 is not planned: input 7"),
        ([first, first], "line 2 repeats input 0"),
        ([first, foreign], "line 2 was made with another seed than its run"),
    ]:
        with pytest.raises(InputError, match=words):
            Run.open(write_run(tmp_path, settings, change)).records()


def test_records_that_are_no_file_are_refused(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(InputError, match=r"records\.jsonl cannot be read"):
        run.records()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    with run.writing(), pytest.raises(InputError, match="another process"), run.writing():
        pass


def test_of_two_that_start_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other finds the folder taken between its look and its write, and is refused: nothing is replaced."""
    real = os.link

    def late(source: object, target: object) -> None:
        monkeypatch.setattr(os, "link", real)
        Run.start(tmp_path, config(seed=1))
        real(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(InputError, match="was started with seed 1; this command asks for 0"):
        Run.start(tmp_path, CONFIG)
    assert Run.open(tmp_path).config.seed == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@contextmanager
def without_links_and_locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a file system that has neither."""

    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def no_lock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", no_link)
        patch.setattr(locking_module.fcntl, "flock", no_lock)
        yield


def test_a_file_system_without_hard_links_and_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with without_links_and_locks(monkeypatch):
        run = finished(tmp_path)
        assert len(Run.open(tmp_path).records()) == 3
        with pytest.raises(InputError, match="was started with seed 0"):
            Run.start(tmp_path, config(seed=1))
        with run.writing(), pytest.raises(InputError, match=r"another process.*or delete .*\.writing"), run.writing():
            pass
        (tmp_path / ".writing").touch()  # as a kill leaves it
        with pytest.raises(InputError, match=r"or one was killed while it did: wait for it, or delete"), run.writing():
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writing", "records.jsonl", "run.json"]


@pytest.mark.parametrize("deed", ["deleted", "replaced", "changed"])
def test_records_that_vanish_while_they_are_written_are_noticed(tmp_path: Path, deed: str) -> None:
    run, file = Run.start(tmp_path, CONFIG), tmp_path / "records.jsonl"

    def do() -> None:
        if deed == "deleted":
            file.unlink()
        elif deed == "replaced":
            (tmp_path / "other").write_bytes(file.read_bytes())
            os.replace(tmp_path / "other", file)
        else:
            file.write_bytes(b"")

    def write(*after: int) -> None:
        with run.writing() as writer:
            writer.append(record(0))
            do()
            for index in after:
                writer.append(record(index))

    with pytest.raises(InputError, match=rf"records.jsonl was {deed}.* while the run was writing"):
        write(20)
    file.unlink(missing_ok=True)
    with pytest.raises(InputError, match=rf"was {deed}"):
        write()
    again = Run.start(tmp_path, CONFIG)
    file.unlink(missing_ok=True)
    with again.writing() as writer:
        writer.append(record(20))
    assert [r.index for r in again.records()] == [20]


def test_what_was_read_is_read_again_when_it_was_written(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    for count, index in enumerate((0, 20, 40), start=1):
        with run.writing() as writer:
            writer.append(record(index))
        assert len(run.records()) == count
    old = os.stat(tmp_path / "records.jsonl").st_mtime_ns - 10**10
    os.utime(tmp_path / "records.jsonl", ns=(old, old))
    first = run.records()
    assert all(a is b for a, b in zip(first, run.records(), strict=True)), "once, as long as nobody writes"
    (tmp_path / "records.jsonl").write_bytes(b"".join(lines(run)[:1]))
    assert len(run.records()) == 1


def test_no_address_and_no_folder_stands_in_a_run() -> None:
    words = ["smoothcert", "certify", "--model", "/home/me/net.safetensors", "--memory", "postgresql://me:secret@h/d"]
    assert command_line(words) == "smoothcert certify --model net.safetensors --memory ..."
    assert command_line(["a", "--memory=host=h password=secret"]) == "a --memory=..."
    assert "secret" not in command_line(["a", "postgres://me:secret@h/d", "--data", "postgres://x?password=secret"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": (), "labels": ()}, "no input is planned"),
        ({"indices": (1, 1), "labels": (0, 0)}, "planned twice"),
        ({"labels": (0,)}, "3 inputs are planned with 1 labels"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"classifier": {"backend": "eager"}}, "must name its backend"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(CONFIG, **change)


def test_things_are_built_from_their_descriptions() -> None:
    assert CONFIG.built_procedure == PROCEDURE
    assert CONFIG.built_noise == Gaussian(0.5)
    assert CONFIG.fixed_draws == 1010
    unknown = config(procedure={"name": "magic"}, noise={"name": "pink"})
    assert unknown.fixed_draws is None, "a table needs no plug-in"
    with pytest.raises(InputError):
        _ = unknown.built_procedure
    with pytest.raises(InputError, match="no noise 'pink'"):
        _ = unknown.built_noise
