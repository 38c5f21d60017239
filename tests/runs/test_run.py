import json
import os
from pathlib import Path

import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

CONFIG = {"indices": [0, 20, 40], "data": {"name": "digits"}, "noise": {}, "seed": 0}


def record(index: int, votes: tuple[int, int] = (990, 10)) -> Record:
    certificate = converse(
        Fixed(n0=10, n=1000).certify(Gaussian(0.5)), lambda ask: Tally(votes) if ask.n > 10 else Tally((10, 0))
    )
    return Record.of(index, label=0, certificate=certificate, seconds=0.125)


def test_records_come_back_to_the_last_bit(tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", CONFIG)
    with run.writing() as writer:
        for index in (40, 0):
            writer.append(record(index))
    back = Run.open(tmp_path / "run").records()
    assert back == [record(0), record(40)], "in the order of the plan"
    assert back[0].radius == record(0).radius
    assert back[0].correct
    assert not back[0].abstained


def test_a_torn_last_line_is_dropped_on_resume(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    with run.writing() as writer:
        writer.append(record(0))
    whole = (tmp_path / "records.jsonl").read_bytes()
    for cut in range(1, len(whole), 97):
        (tmp_path / "records.jsonl").write_bytes(whole + whole[:cut])
        assert [r.index for r in run.records()] == [0]
        with run.writing() as writer:
            writer.append(record(20))
        assert [r.index for r in run.records()] == [0, 20]
    assert (tmp_path / "records.jsonl").read_bytes().count(b"\n") == 2


def test_the_same_configuration_resumes_and_another_is_refused(tmp_path: Path) -> None:
    run = Run.start(tmp_path / "run", CONFIG)
    with run.writing() as writer:
        writer.append(record(0))
    assert len(Run.start(tmp_path / "run", CONFIG).records()) == 1
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    for change, words in [
        ({"data": {"name": "mnist"}}, r"data.name is 'digits', now 'mnist'"),
        ({"indices": [0, 1]}, "indices differs"),
        ({"extra": 1}, "extra is None, now 1"),
    ]:
        with pytest.raises(InputError, match=words):
            Run.start(tmp_path / "run", {**CONFIG, **change})
    assert {p: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before


def test_a_place_holds_a_run_or_nothing(tmp_path: Path) -> None:
    assert Run.at(tmp_path / "run") is None
    assert not (tmp_path / "run").exists()
    Run.start(tmp_path / "run", CONFIG)
    there = Run.at(tmp_path / "run")
    assert there is not None
    assert there.planned == [0, 20, 40]
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
    (tmp_path / ".run.json.123").write_text('{"format"')
    assert Run.start(tmp_path, CONFIG).planned == [0, 20, 40]


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("[]", "not a run of format 2"), ('{"format": 99}', "not a run of format 2")],
)
def test_damaged_configurations_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=words):
        Run.open(tmp_path)


def test_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no readable run\.json"):
        Run.open(tmp_path / "nowhere")


def test_damaged_doubled_and_foreign_records_are_named_by_line(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    good = json.dumps(record(0).to_json())
    strange = json.dumps(record(7).to_json())
    for second, words in [
        ("{broken", "line 2 is damaged"),
        ("[]", "line 2 is damaged"),
        ('{"index": 20}', "line 2 is damaged"),
        (good, "line 2 repeats input 0"),
        (strange, "line 2 is not planned: input 7"),
    ]:
        (tmp_path / "records.jsonl").write_text(f"{good}\n{second}\n")
        with pytest.raises(InputError, match=words):
            run.records()


def test_an_auditor_gets_every_line_with_all_that_is_wrong(tmp_path: Path) -> None:
    run = Run.start(tmp_path, {**CONFIG, "seed": 1, "noise": {"name": "other"}})
    good, strange = json.dumps(record(0).to_json()), json.dumps(record(7).to_json())
    (tmp_path / "records.jsonl").write_text(f"{good}\n{{broken\n{strange}\n{good}\n{good[:50]}")
    entries = list(run.entries())
    assert [[finding.check for finding in entry.findings] for entry in entries] == [
        ["seed", "noise"], ["damaged"], ["not planned", "seed", "noise"], ["repeated", "seed", "noise"]
    ]  # fmt: skip
    assert [entry.record and entry.record.index for entry in entries] == [0, None, 7, 0]
    assert entries[1].findings[0].where == "line 2"
    assert entries[2].findings[0].where == "input 7"
    assert run.torn
    (tmp_path / "records.jsonl").write_text(f"{good}\n")
    assert not run.torn


def test_records_that_are_no_file_are_refused(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(InputError, match=r"records\.jsonl cannot be read"):
        run.records()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    run = Run.start(tmp_path, CONFIG)
    with run.writing(), pytest.raises(InputError, match="another process"), run.writing():
        pass


def test_a_record_made_with_other_settings_is_refused(tmp_path: Path) -> None:
    certificate = record(0).certificate
    assert certificate is not None
    run = Run.start(tmp_path, {**CONFIG, "procedure": {**certificate.procedure, "alpha": 0.5}})
    with run.writing() as writer:
        writer.append(record(0))
    with pytest.raises(InputError, match="line 1 was made with another procedure"):
        run.records()


def test_of_two_that_start_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other finds the folder taken between its look and its write, and is refused: nothing is replaced."""
    real = os.link

    def late(source: object, target: object) -> None:
        monkeypatch.setattr(os, "link", real)
        Run.start(tmp_path, {**CONFIG, "seed": 1})
        real(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(InputError, match="seed is 1, now 0"):
        Run.start(tmp_path, CONFIG)
    assert Run.open(tmp_path).config["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
