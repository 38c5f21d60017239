"""Is one run better than another on the same inputs?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothcert import analysis, runs
from smoothcert.analysis import Comparison, Results

Source = str | Path | runs.Run | Results
"""A run, its folder, a public TSV log, or results that were read before."""


def compare(a: Source, b: Source, radii: Sequence[float] | None = None) -> Comparison:
    """Compare two runs or logs input by input: differences of ACR and certified accuracy, intervals and exact tests."""
    first, second = read_two(a, b)
    return analysis.compare(first, second, None if radii is None else list(radii))


def read_two(a: Source, b: Source) -> tuple[Results, Results]:
    """Both, under names that tell them apart."""
    if isinstance(a, Results) and isinstance(b, Results):
        return a, b
    if isinstance(a, Results) or isinstance(b, Results):
        return _read(a), _read(b)
    first, second = analysis.read_all([_path(a), _path(b)])
    return first, second


def _read(source: Source) -> Results:
    return source if isinstance(source, Results) else analysis.read(_path(source))


def _path(source: str | Path | runs.Run) -> Path:
    return source.path if isinstance(source, runs.Run) else Path(source)
