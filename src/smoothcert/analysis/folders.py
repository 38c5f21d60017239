"""A folder of runs and logs, as a leaderboard: everything below it that can be read, the largest ACR first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothcert.analysis.measures import average_certified_radius
from smoothcert.analysis.results import Results, on_shared_inputs, read, subset_warnings, told_apart
from smoothcert.core.errors import InputError


@dataclass(frozen=True)
class Leaderboard:
    """What was read, and what was left out with the reason."""

    results: tuple[Results, ...]
    skipped: tuple[str, ...] = ()


def leaderboard(sources: Sequence[str | Path]) -> Leaderboard:
    """Read runs, logs, and folders that hold them at any depth.

    What is named itself is refused if it cannot be read; what only lies in a folder is skipped, with the reason. As
    soon as a folder is among the sources the results are ordered by ACR, the largest first, else as given. Results of
    other data or in another norm are no competition: they stand together, below.
    """
    found: list[tuple[Path, Results]] = []
    skipped: list[str] = []
    searched = False
    for source in map(Path, sources):
        if not is_folder_of_results(source):
            found.append((source, read(source)))
            continue
        below = {path: result for path in _below(source) if (result := _readable(path, skipped)) is not None}
        if not below:
            raise InputError(
                f"{source} is not a run, and no run or log below it can be read"
                f"{f' ({skipped[0]})' if skipped else ''}; give a run folder, a TSV log, or a folder that holds some"
            )
        found += below.items()
        searched = True
    once = list(dict(found).items()) if searched else found
    named = told_apart([result for _, result in once], [path for path, _ in once])
    return Leaderboard(tuple(_ranked(named) if searched else named), tuple(skipped))


def is_folder_of_results(path: Path) -> bool:
    """A folder that is not itself a run."""
    return path.is_dir() and not (path / "run.json").exists()


def _ranked(results: Sequence[Results]) -> list[Results]:
    boards: list[list[Results]] = []
    for result in sorted(results, key=lambda result: (-average_certified_radius(result.records), result.name)):
        home = next((board for board in boards if _compete(board[0], result)), None)
        if home is None:
            boards.append(home := [])
        home.append(result)
    return [result for board in boards for result in board]


def _compete(a: Results, b: Results) -> bool:
    """They share inputs, and nothing says that these are other data or other norms."""
    return not a.indices.isdisjoint(b.indices) and not subset_warnings(on_shared_inputs([a, b]))


def _below(folder: Path) -> Iterator[Path]:
    """Runs, .tsv and .tsv.gz files, in the order of their names; what lies inside a run belongs to it."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}); give a folder that can") from None
    for entry in entries:
        if is_folder_of_results(entry):
            if not entry.is_symlink():  # a link could lead back up
                yield from _below(entry)
        elif entry.is_dir() or entry.name.endswith((".tsv", ".tsv.gz")):
            yield entry


def _readable(path: Path, skipped: list[str]) -> Results | None:
    """What is in a path; None where it cannot be read, and then the reason is added to `skipped`."""
    try:
        return read(path)
    except InputError as error:
        skipped.append(str(error))
        return None
