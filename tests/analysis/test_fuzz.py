"""Whatever is in the file: results that can be summarised, or one sentence. Never another exception."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_runs import made_of, read_run, simulated_config, write_run

from smoothcert.analysis import Results, read, summarise
from smoothcert.audit import audit_run
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian, Noise
from smoothcert.present import markdown
from smoothcert.procedures import Ask, Fixed, Procedure, Sequential, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

HEADER = b"idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
GOOD = HEADER + b"".join(b"%d\t1\t%d\t0.%d25\t1\t0:00:0%d.5\n" % (20 * i, i % 3 - 1, i, i) for i in range(10))


def survives(data: bytes) -> Results | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.tsv"
        path.write_bytes(data)
        try:
            results = read(path)
        except InputError:
            return None
    summary = summarise([results])
    json.dumps(summary.to_json(), allow_nan=False)
    assert markdown(summary)
    return results


edits = st.lists(
    st.tuples(
        st.integers(0, len(GOOD)),
        st.integers(0, 12),
        st.binary(max_size=6)
        | st.sampled_from([b"\t", b"\n", b"-", b"e", b"nan", b"9" * 400, b"1e308", b"\r\n", b"0", b"\0"]),
    ),
    min_size=1,
    max_size=4,
)


@given(st.binary(max_size=200))
def test_arbitrary_bytes(data: bytes) -> None:
    survives(data)


@given(st.binary(max_size=200) | st.text(alphabet="0123456789.-+e\t\n :daynif,_", max_size=200).map(str.encode))
def test_arbitrary_rows(data: bytes) -> None:
    survives(HEADER + data)


@settings(max_examples=300)
@given(edits)
def test_mutated_logs(changes: list[tuple[int, int, bytes]]) -> None:
    data = GOOD
    for start, length, new in changes:
        data = data[:start] + new + data[start + length :]
    survives(data)


def test_a_log_cut_anywhere_loses_rows_but_never_changes_one(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_bytes(GOOD)
    whole = [dataclasses.replace(record, seconds=None) for record in read(path).records]
    for length in range(len(HEADER) + len("0\t1\t-1\t0.025\t1\t0:00:00"), len(GOOD)):
        path.write_bytes(GOOD[:length])
        cut = [dataclasses.replace(record, seconds=None) for record in read(path).records]
        assert cut == whole[: len(cut)]
        assert GOOD[:length].count(b"\n") - 1 <= len(cut) <= GOOD[:length].count(b"\n")


@settings(max_examples=200)
@given(where=st.integers(0, 10**6), length=st.integers(0, 8), new=st.binary(max_size=4), file=st.booleans())
def test_mutated_runs(tmp_path_factory, where: int, length: int, new: bytes, file: bool) -> None:
    source = _run(tmp_path_factory)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run.json", "records.jsonl"):
            data = (source / name).read_bytes()
            if (name == "run.json") == file:
                start = where % (len(data) + 1)
                data = data[:start] + new + data[start + length :]
            (Path(folder) / name).write_bytes(data)
        try:
            summary = summarise([read(folder)])
        except InputError:
            return
        assert markdown(summary)


def _run(factory, made: list[Path] = []) -> Path:  # noqa: B006  (made once)
    class Flat:
        norm = "l2"

        def radius(self, p_lower: float, p_upper: float | None = None) -> float:
            return max(0.0, p_lower - 0.5)

        def required_p(self, radius: float) -> float:
            return radius + 0.5

    if not made:
        about: dict[str, Any] = {"noise": {}, "classifier": {}, "procedure": Fixed(n0=5, n=50).describe()}
        run = Run.start(factory.mktemp("fuzz") / "run", simulated_config([0, 1, 2], **about))
        with run.writing() as writer:
            for i in range(3):

                def draw(ask: Ask, i: int = i) -> Tally:
                    return Tally((ask.n - i, i))

                writer.append(Record.of(i, 0, converse(Fixed(n0=5, n=50).certify(Flat()), draw), 0.25))
        made.append(run.path)
    return made[0]


# Values that no honest file has, where one is expected: of another kind, too large, too small, not finite, nested.
ODD: list[Any] = [
    None, True, -1, 0, 0.0, 1, 2**63, 10**30, 10**400, 1e308, 5e-324, -0.5, float("nan"), float("inf"), "", "0",
    "x" * 99, [], [0], {}, {"a": 1}, [[]], {"name": "fixed"}, {"name": []},
]  # fmt: skip
NOISE = Gaussian(0.25, dim=4).describe()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs that hold."""
    folder = tmp_path_factory.mktemp("audited")
    return [_audited(folder / p.name, p) for p in (Fixed(n0=5, n=50), Sequential(radius=[0.05, 0.1], n=300))]


def _audited(path: Path, procedure: Procedure) -> Path:
    about: dict[str, Any] = {"classifier": {"fingerprint": "0"}, "num_classes": 3, "noise": NOISE}
    run = Run.start(path, simulated_config([0, 2, 4], procedure=procedure.describe(), **about))
    with run.writing() as writer:
        for index in (0, 2, 4):

            def draw(ask: Ask, index: int = index) -> Tally:
                return Tally((ask.n - index, index, 0))

            made = converse(procedure.certify(Noise.from_description(NOISE)), draw)
            whole = dataclasses.replace(made, noise=NOISE, classifier={"fingerprint": "0"}, input_id=str(index))
            writer.append(Record.of(index, 1, whole, 0.25))
    assert audit_run(Run.open(path)).findings == ()
    return path


def audited(source: Path, change: Callable[[Path], object]) -> bool | None:
    """Whether the run holds when it was changed; None: refused by one sentence. Its folder stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copytree(source, Path(folder) / "run"))
        change(path)
        before = {file.name: file.read_bytes() for file in path.iterdir()}
        try:
            audit = audit_run(Run.open(path))
        except InputError:
            return None
        finally:
            assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    json.dumps([finding.to_json() for finding in audit.findings])
    assert audit.holding() <= len(audit.records) <= audit.planned
    assert all("\n" not in finding.sentence for finding in audit.findings)
    return not audit.findings


@settings(max_examples=200, derandomize=True)
@given(st.data())
def test_changed_bytes_are_noticed(honest: list[Path], data: st.DataObject) -> None:
    """Whatever byte it is: an audit never raises, and nothing but the circumstances of a run can change unnoticed."""
    source, name = data.draw(st.sampled_from(honest)), data.draw(st.sampled_from(["run.json", "records.jsonl"]))
    content = (source / name).read_bytes()
    start, length = data.draw(st.integers(0, len(content))), data.draw(st.integers(0, 8))
    changed = content[:start] + data.draw(st.binary(max_size=4)) + content[start + length :]
    holds = audited(source, lambda path: (path / name).write_bytes(changed))
    if name == "records.jsonl":
        assert holds is not True or changed == content
    else:
        assert holds is not True or json.loads(changed)["config"] == json.loads(content)["config"]


@settings(max_examples=300, derandomize=True)
@given(st.data())
def test_an_audit_of_odd_values_never_raises(honest: list[Path], data: st.DataObject) -> None:
    """By a careful forger, who makes every digest again."""
    source, name = data.draw(st.sampled_from(honest)), data.draw(st.sampled_from(["run.json", "records.jsonl"]))
    config, lines = read_run(source)
    where: Any = config if name == "run.json" else lines[data.draw(st.integers(0, len(lines) - 1))]
    while True:
        key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else list(range(len(where)))))
        if isinstance(where[key], dict | list) and where[key] and data.draw(st.integers(0, 3)):
            where = where[key]
        else:
            break
    old, new = where[key], data.draw(st.sampled_from(ODD))
    where[key] = new
    holds = audited(source, lambda path: write_run(path, config, lines, **made_of(source)))
    if name == "records.jsonl" and key not in ("seconds", "input_id"):
        assert holds is not True or old == new
