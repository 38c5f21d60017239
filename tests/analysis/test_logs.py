import gzip
from pathlib import Path

import pytest

from smoothcert.analysis import read, read_log
from smoothcert.analysis.logs import doubts_about_subset
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


@pytest.fixture
def log(tmp_path: Path):
    def write(text: str | bytes, name: str = "a.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def rows(n: int, step: int = 1, start: int = 0) -> str:
    return "".join(f"{start + i * step}\t1\t1\t0.125\t1\t1.5\n" for i in range(n))


def test_the_usual_format(log) -> None:
    got = read_log(log(HEADER + "0\t3\t3\t0.378\t1\t15.4\n20\t7\t-1\t0.0\t0\t15.6\n40\t7\t8\t1.5\t0\t0.5\n"))
    assert got.records == (
        Record(0, 3, 3, 0.378, seconds=15.4),
        Record(20, 7, -1, 0.0, seconds=15.6),
        Record(40, 7, 8, 1.5, seconds=0.5),
    )


def test_read_names_it_after_the_file(log) -> None:
    results = read(log(HEADER + rows(100), "model sigma0.25.tsv"))
    assert results.name == "model sigma0.25"
    assert results.planned is None
    assert results.warnings == ()
    assert results.settings.source == "public log"
    assert len(results.records) == 100


def test_a_gzipped_log_is_the_log(log) -> None:
    plain, packed = log(HEADER + rows(100)), log(gzip.compress((HEADER + rows(100)).encode()), "a.tsv.gz")
    assert read(packed) == read(plain)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no gzip", "Not a gzipped file"),
        (gzip.compress(HEADER.encode())[:-9], "ended before the end-of-stream marker"),
        (gzip.compress(HEADER.encode())[:10] + b"\xff" * 40, "invalid"),
        (gzip.compress(bytes(2**28 + 1), 1), "more than the 268435456 bytes"),
    ],
    ids=["plain", "torn", "damaged", "bomb"],
)
def test_a_packed_log_that_is_none_gets_one_sentence(log, content: bytes, reason: str) -> None:
    with pytest.raises(
        InputError, match=rf"^\S+a\.tsv\.gz cannot be read \(.*{reason}.*\); give a run folder or a TSV log$"
    ):
        read(log(content, "a.tsv.gz"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15.4", 15.4),
        ("0", 0.0),
        ("1e-05", 1e-05),
        ("0:00:13.7", 13.7),
        ("0:02:31.238689", 151.238689),
        ("12:00:00", 43200.0),
        ("1 day, 0:00:01", 86401.0),
        ("2 days, 3:04:05.5", 2 * 86400 + 3 * 3600 + 4 * 60 + 5.5),
    ],
)
def test_times(log, text: str, seconds: float) -> None:
    assert read_log(log(HEADER + f"0\t1\t1\t0.5\t1\t{text}\n")).records[0].seconds == pytest.approx(seconds, rel=1e-15)


def test_other_order_no_time_extra_column_windows_ends_and_bom(log) -> None:
    text = "\ufeffradius\tpredict\tpABar\tidx\tlabel\r\n0.5\t2\t0.9\t7\t2\r\n\r\n0.25\t-1\t0.4\t8\t2\r\n"
    got = read_log(log(text))
    assert got.records == (Record(7, 2, 2, 0.5), Record(8, 2, -1, 0.0))
    assert got.warnings == (
        "2 rows, every input, last index 8: truncated? all of 10000 (MNIST, CIFAR) would be 9993 rows",
    )


def test_a_radius_counts_nothing_where_it_abstains(log) -> None:
    assert read_log(log(HEADER + "0\t3\t-1\t0.7\t0\t1\n")).records[0].radius == 0.0


def test_a_running_total_in_correct_is_named_and_recomputed(log) -> None:
    body = "".join(f"{i}\t1\t{i % 2}\t0.1\t{(i + 1) // 2}\t1\n" for i in range(100))  # right at odd i
    got = read_log(log(HEADER + body))
    assert sum(record.correct for record in got.records) == 50
    # the total agrees with the row at i = 0 (0) and i = 1 (1) only
    assert got.warnings == ("its column `correct` is not predict == label in 98 of 100 rows; it was recomputed",)


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("True", "False"), ("1.0", "0.0")])
def test_correct_in_other_spellings_agrees(log, yes: str, no: str) -> None:
    body = "".join(f"{i}\t1\t{i % 2}\t0.1\t{yes if i % 2 else no}\t1\n" for i in range(100))
    assert read_log(log(HEADER + body)).warnings == ()


@pytest.mark.parametrize(
    "torn", ["100", "100\t1\t1", "100\t1\t1\t0.3\t1\t", "100\t1\t1\t0.3\t1\t0:00:", "100\t1\t1\t0.\tx"]
)
def test_a_torn_last_line_is_dropped_and_named(log, torn: str) -> None:
    got = read_log(log(HEADER + rows(100) + torn))
    assert len(got.records) == 100
    assert len(got.warnings) == 1
    assert got.warnings[0].startswith("its last line (102) is torn (")
    assert got.warnings[0].endswith(") and was dropped")


def test_a_last_line_without_end_counts_if_only_the_time_can_be_cut(log) -> None:
    assert len(read_log(log(HEADER + rows(100)[:-1])).records) == 100
    # 9.5e-05 may have been cut to 9.5
    cut = read_log(
        log("idx\tlabel\tpredict\tradius\n" + "".join(f"{i}\t1\t1\t0.5\n" for i in range(100)) + "100\t1\t1\t9.5")
    )
    assert len(cut.records) == 100
    assert cut.warnings == ("its last line (102) is torn (it has no line end) and was dropped",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"line 1 must name the columns.*idx, label, predict, radius"),
        ("0\t3\t3\t0.378\t1\t15.4\n", "line 1 must name the columns"),
        ("idx\tlabel\tpredict\n0\t1\t1\n", "radius is not there"),
        ("idx label predict radius\n0 1 1 0.5\n", "tab-separated"),
        ("idx\tlabel\tpredict\tradius\tidx\n", "names the column 'idx' twice"),
        (HEADER, "holds no row"),
        (HEADER + "0\t3", "holds no row"),
        (HEADER + "0\t3\n" + rows(2), "line 2 is not a row of a log .2 fields, the header has 6"),
        (HEADER + rows(1) + "1\t1\t1\tabc\t1\t1\n" + rows(1, start=2), "line 3 .*radius is 'abc', not a number"),
        (HEADER + rows(1) + "1\t1\t1\tnan\t1\t1\n" + rows(1, start=2), "line 3 .*radius is 'nan'"),
        (HEADER + rows(1) + "1\t1\t1\t1e999\t1\t1\n" + rows(1, start=2), "line 3 .*radius 1e999"),
        (HEADER + rows(1) + "1\t1\t1\t-0.5\t1\t1\n" + rows(1, start=2), "line 3 .*radius -0.5"),
        (HEADER + rows(1) + "1\t1\t-2\t0.5\t1\t1\n" + rows(1, start=2), "line 3 .*predict is '-2'"),
        (HEADER + rows(1) + "1\t-1\t1\t0.5\t1\t1\n" + rows(1, start=2), "line 3 .*label is '-1'"),
        (HEADER + rows(1) + "1_0\t1\t1\t0.5\t1\t1\n" + rows(1, start=2), "line 3 .*idx is '1_0'"),
        (HEADER + rows(1) + "1\t1\t1\t0.5\t1\tsoon\n" + rows(1, start=2), "line 3 .*time is 'soon'"),
        (HEADER + rows(3) + rows(1, start=1), "line 5 repeats input 1 of line 3"),
        (b"idx\tlabel\tpredict\tradius\n0\t1\t1\t\xff\n", "line 2 is not UTF-8"),
    ],
)
def test_unreadable_is_refused_in_one_sentence(log, text: str | bytes, sentence: str) -> None:
    path = log(text, "bad.tsv")
    with pytest.raises(InputError, match=sentence) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.tsv")
    with pytest.raises(InputError, match="does not exist"):
        read("bad\0name")
    with pytest.raises(InputError, match=r"no readable run\.json"):
        read(tmp_path)


@pytest.mark.parametrize(
    "indices",
    [
        range(0, 10_000, 20),
        range(10_000),
        range(1, 10_000, 20),
        range(0, 26_032, 30),  # SVHN: 868 rows
        range(0, 50_000, 100),
        range(0, 50_000, 333),
        range(500, 1000),  # the MACER paper's subset: a round number of rows
        range(500),
    ],
)
def test_whole_logs_are_not_doubted(indices: range) -> None:
    assert doubts_about_subset(indices) == []


def test_truncated_logs_are_named() -> None:
    assert doubts_about_subset(range(0, 42_601, 100)) == [
        "427 rows, every 100th input, last index 42600: truncated? every 100th of 50000 (ImageNet) would be 500 rows"
    ]
    assert doubts_about_subset(range(0, 4000, 20)[:-1]) == [
        "199 rows, every 20th input, last index 3960: truncated? every 20th of 10000 (MNIST, CIFAR) would be 500 rows"
    ]
    assert "every 51st of 26032 (SVHN) would be 511 rows" in doubts_about_subset(range(0, 20_000, 51))[0]
    assert doubts_about_subset(range(0, 60_000, 7)) == [
        "8572 rows, every 7th input, last index 59997: truncated? it ends where no known test set ends"
    ]
    assert doubts_about_subset([5]) == ["1 row, of input 5: truncated?"]


def test_missing_rows_in_between_are_named() -> None:
    indices = [i for i in range(0, 10_000, 20) if i != 200]
    assert doubts_about_subset(indices) == [
        "the step between inputs is mostly 20 but 40 after input 180: rows may be missing"
    ]
    assert doubts_about_subset(list(reversed(range(0, 10_000, 20)))) == []


def test_the_note_on_rounded_radii(log) -> None:
    def note(*radii: str) -> str | None:
        return read(log(HEADER + "".join(f"{i}\t1\t1\t{r}\t1\t1\n" for i, r in enumerate(radii)))).settings.note

    assert note("0.378", "1.34", "9.55e-05", "0.0") == (
        "the author rounded radii to 3 digits, to nearest: a claim at a radius of the table may be off by half a unit "
        "of the last digit"
    )
    assert note("0.3785", "1.34") is None
    assert note("3.0", "12.0") is None  # l0 radii are whole numbers, not rounded ones
