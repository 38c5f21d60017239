"""Public certification logs: tab-separated `idx label predict radius correct time`, as Cohen et al. (2019) began it.

What is claimed is recomputed, not believed: `correct` from predict == label (one author's column is a running total),
and a radius where the classifier abstained counts 0. A log that stops early is not silently taken for a whole one.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from smoothcert.analysis.subset import common_step, ordinal
from smoothcert.core.errors import InputError
from smoothcert.core.files import read_inflated
from smoothcert.procedures import ABSTAIN
from smoothcert.runs import Record

NEEDED = ("idx", "label", "predict", "radius")
# A value cut off at its end cannot do harm in these columns; "9.5e-05" cut to "9.5" in another one would.
HARMLESS = ("time", "correct")
TEST_SETS = {10_000: "MNIST, CIFAR", 26_032: "SVHN", 50_000: "ImageNet"}
LARGEST = 1e9
MOST_BYTES = 2**28  # a million inputs take a quarter of it

INTEGER = re.compile(r"-?[0-9]{1,15}")
NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
CLOCK = re.compile(r"(?:([0-9]{1,6}) days?, )?([0-9]{1,9}):([0-9]{1,2}):([0-9]{1,2}(?:\.[0-9]*)?)")
SAID = {"1": True, "1.0": True, "True": True, "0": False, "0.0": False, "False": False}

ROUNDED = (
    "the author rounded radii to {digits} digits, to nearest: a claim at a radius of the table may be off by half a "
    "unit of the last digit"
)


@dataclass(frozen=True)
class Log:
    """The records of a log in the order of the file, what is wrong with it, and what to know about it."""

    records: tuple[Record, ...]
    warnings: tuple[str, ...]
    note: str | None


@dataclass(frozen=True)
class _Row:
    record: Record
    radius: str  # as it is written
    correct: str | None


class _UnreadableError(Exception):
    """A line that is no row; the message says why."""


def read_log(path: Path) -> Log:
    """Read a log, or refuse it with the line and the way out. At least one row, no input twice, radii in [0, 1e9].

    A last line that is torn is dropped with a warning; damage elsewhere is refused.
    """
    lines = _lines(path)
    columns = _columns(path, lines[0])
    last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
    rows: list[_Row] = []
    warnings: list[str] = []
    seen: dict[int, int] = {}
    for number, line in _numbered(lines):
        try:
            if number == len(lines) and columns[-1] not in HARMLESS:
                raise _UnreadableError("it has no line end")
            row = _row(columns, line)
        except _UnreadableError as error:
            if number != last:
                raise InputError(
                    f"{path}, line {number} is not a row of a log ({error}); repair or delete it"
                ) from None
            warnings.append(f"its last line ({number}) is torn ({error}) and was dropped")
            continue
        if (before := seen.setdefault(row.record.index, number)) != number:
            raise InputError(
                f"{path}, line {number} repeats input {row.record.index} of line {before}; delete one of the two lines"
            )
        rows.append(row)
    if not rows:
        raise InputError(f"{path} holds no row below the header; give a log with at least one certified input")
    warnings += _doubts_about_correct(rows) + doubts_about_subset(list(seen))
    return Log(tuple(row.record for row in rows), tuple(warnings), _rounding(rows))


def doubts_about_subset(indices: Sequence[int]) -> list[str]:
    """Warnings about indices that look as if rows were missing: at the end (truncated) or in between.

    A log is taken for whole if it ends where a known test set ends, or has a multiple of 100 rows.
    """
    n, ends = len(indices), max(indices)
    if n == 1:
        return [f"1 row, of input {ends}: truncated?"]
    step = common_step(indices)
    if step is None:
        return [_irregular(sorted(indices))]
    if n % 100 == 0 or any(size - step <= ends < size for size in TEST_SETS):
        return []
    which = "every input" if step == 1 else f"every {ordinal(step)} input"
    size = next((size for size in sorted(TEST_SETS) if size > ends), None)
    if size is None:
        return [f"{n} rows, {which}, last index {ends}: truncated? it ends where no known test set ends"]
    whole = len(range(min(indices), size, step))
    of = "all" if step == 1 else f"every {ordinal(step)}"
    return [
        f"{n} rows, {which}, last index {ends}: truncated? {of} of {size} ({TEST_SETS[size]}) would be {whole} rows"
    ]


def _irregular(ordered: list[int]) -> str:
    steps = [(after - before, before) for before, after in pairwise(ordered)]
    usual = Counter(step for step, _ in steps).most_common(1)[0][0]
    step, before = next((step, before) for step, before in steps if step != usual)
    return f"the step between inputs is mostly {usual} but {step} after input {before}: rows may be missing"


def _lines(path: Path) -> list[str]:
    try:
        data = read_inflated(path, most=MOST_BYTES)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}); give a run folder or a TSV log") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {number} is not UTF-8 text; give a run folder or a TSV log") from None
    return text.replace("\r\n", "\n").split("\n")


def _columns(path: Path, header: str) -> list[str]:
    columns = [name.strip() for name in header.split("\t")]
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(
            f"{path}, line 1 must name the columns of a certification log, tab-separated, but {', '.join(missing)} "
            "is not there; give a run folder or a TSV log with a header"
        )
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"{path}, line 1 names the column {twice[0]!r} twice; rename or remove one of them")
    return columns


def _numbered(lines: list[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines[1:], start=2) if line.strip())


def _row(columns: list[str], line: str) -> _Row:
    fields = line.split("\t")
    if len(fields) != len(columns):
        raise _UnreadableError(f"{len(fields)} fields, the header has {len(columns)}")
    cell = {name: field.strip() for name, field in zip(columns, fields, strict=True)}
    prediction = _integer("predict", cell["predict"], ABSTAIN)
    radius = _number("radius", cell["radius"])
    if prediction == ABSTAIN:
        radius = 0.0
    if not 0 <= radius <= LARGEST:
        raise _UnreadableError(f"radius {cell['radius']} is not in 0..{LARGEST:g}")
    record = Record(
        index=_integer("idx", cell["idx"], 0),
        label=_integer("label", cell["label"], 0),
        prediction=prediction,
        radius=radius,
        seconds=_seconds(cell["time"]) if "time" in cell else None,
    )
    return _Row(record, cell["radius"], cell.get("correct"))


def _integer(name: str, text: str, least: int) -> int:
    if not INTEGER.fullmatch(text) or int(text) < least:
        raise _UnreadableError(f"{name} is {text[:20]!r}, not an integer of at least {least}")
    return int(text)


def _number(name: str, text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise _UnreadableError(f"{name} is {text[:20]!r}, not a number")
    return float(text) + 0.0  # -0.0 becomes 0.0


def _seconds(text: str) -> float:
    """Seconds as a number, or what Python prints for a duration: `0:00:13.7`, `1 day, 0:00:01`."""
    if clock := CLOCK.fullmatch(text):
        days, hours, minutes, seconds = clock.groups()
        return 86400.0 * int(days or 0) + 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)
    seconds = _number("time", text)
    if not 0 <= seconds <= LARGEST:
        raise _UnreadableError(f"time is {text[:20]!r}, not a duration")
    return seconds


def _doubts_about_correct(rows: list[_Row]) -> list[str]:
    wrong = sum(row.correct is not None and SAID.get(row.correct) is not row.record.correct for row in rows)
    if not wrong:
        return []
    return [f"its column `correct` is not predict == label in {wrong} of {len(rows)} rows; it was recomputed"]


def _rounding(rows: list[_Row]) -> str | None:
    """A note if no radius has more than 3 significant digits and they are not whole numbers (l0 radii are)."""
    claimed = [row for row in rows if not row.record.abstained]
    digits = max((len(re.sub(r"[eE].*|\.|-", "", row.radius).lstrip("0")) for row in claimed), default=0)
    if digits > 3 or all(row.record.radius.is_integer() for row in claimed):
        return None
    return ROUNDED.format(digits=digits)
