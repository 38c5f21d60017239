"""Whatever is in the file: results that can be summarised, or one sentence. Never another exception."""

import dataclasses
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from smoothcert.analysis import Results, markdown, read, summarise
from smoothcert.errors import InputError

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
    from smoothcert.certify import Ask, Fixed, converse
    from smoothcert.runs import Record, Run
    from smoothcert.stats import Tally

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
