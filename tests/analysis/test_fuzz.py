"""Whatever is in the file: results that can be summarised, or one sentence. Never another exception."""

import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

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
        run = Run.start(factory.mktemp("fuzz") / "run", {"indices": [0, 1, 2], "noise": {}})
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
    config = {
        "model": {}, "classifier": {"fingerprint": "0"}, "num_classes": 3, "noise": NOISE, "seed": 0,
        "procedure": procedure.describe(), "fixed_draws": procedure.fixed_draws(), "indices": [0, 2, 4],
        "labels": [1, 1, 1],
        "data": {"name": "own", "size": 6, "subset": {"start": 0, "every": 2, "limit": None}, "distinct": 3},
        "versions": {"numpy": numpy.__version__, "scipy": scipy.__version__},
    }  # fmt: skip
    run = Run.start(path, config)
    with run.writing() as writer:
        for index in (0, 2, 4):

            def draw(ask: Ask, index: int = index) -> Tally:
                return Tally((ask.n - index, index, 0))

            made = converse(procedure.certify(Noise.from_description(NOISE)), draw)
            whole = dataclasses.replace(made, noise=NOISE, classifier={"fingerprint": "0"}, input_id=str(index))
            writer.append(Record.of(index, 1, whole, 0.25))
    assert audit_run(Run.open(path)).findings == ()
    return path


def audited(source: Path, name: str, data: bytes) -> bool | None:
    """Whether the run holds with one file changed; None: refused by one sentence. Its folder stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copytree(source, Path(folder) / "run"))
        (path / name).write_bytes(data)
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


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_an_audit_of_changed_bytes_never_raises(honest: list[Path], data: st.DataObject) -> None:
    source, name = data.draw(st.sampled_from(honest)), data.draw(st.sampled_from(["run.json", "records.jsonl"]))
    content = (source / name).read_bytes()
    start, length = data.draw(st.integers(0, len(content))), data.draw(st.integers(0, 8))
    changed = content[:start] + data.draw(st.binary(max_size=4)) + content[start + length :]
    holds = audited(source, name, changed)
    if name == "records.jsonl":
        # Which input it is only the data tell, and nobody claims the time; in everything else one byte is enough.
        assert holds is not True or _claims(changed) == _claims(content)


def _claims(content: bytes) -> list[Any]:
    claims = [json.loads(line) | {"seconds": None} for line in content.splitlines()]
    for claim in claims:
        claim["certificate"]["input_id"] = None
    return claims


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_an_audit_of_odd_values_never_raises(honest: list[Path], data: st.DataObject) -> None:
    source, name = data.draw(st.sampled_from(honest)), data.draw(st.sampled_from(["run.json", "records.jsonl"]))
    texts = (source / name).read_text().splitlines() if name == "records.jsonl" else [(source / name).read_text()]
    row = data.draw(st.integers(0, len(texts) - 1))
    content = json.loads(texts[row])
    where: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else list(range(len(where)))))
        if isinstance(where[key], dict | list) and where[key] and data.draw(st.integers(0, 3)):
            where = where[key]
        else:
            break
    old, new = where[key], data.draw(st.sampled_from(ODD))
    where[key] = new
    texts[row] = json.dumps(content, separators=(",", ":"))
    holds = audited(source, name, "".join(f"{text}\n" for text in texts).encode())
    if name == "records.jsonl" and key not in ("seconds", "input_id"):
        assert holds is not True or old == new
