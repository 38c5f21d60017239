"""Runs beside every published method on the same images: a table, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from smoothcert import analysis
from smoothcert.analysis import Results, average_certified_radius
from smoothcert.analysis.board import OF_ALL, PUBLISHED_DRAWS, RECOUNTED, Board, bound_draws
from smoothcert.analysis.board import board as put_beside
from smoothcert.analysis.comparison import Comparison, plus
from smoothcert.analysis.measures import Share, asked_shares
from smoothcert.analysis.summary import usual_radii
from smoothcert.core.errors import InputError
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.report import Ahead, write_report
from smoothcert.present.tables import NOT_ASKED, radius_title
from smoothcert.stats.rounding import down, nearest, percent, up


def board(
    sources: Sequence[str | Path],
    *,
    sigma: float | None = None,
    network: str | None = None,
    radii: Sequence[float] | None = None,
    same_draws: bool = False,
) -> Board:
    """Read runs, or public logs of other methods, and put them beside the published ones; see `analysis.board`."""
    if not sources:
        raise InputError("give at least one run, as in smoothcert board runs/mine")
    runs = analysis.read_all([Path(one) for one in sources])
    return put_beside(runs, sigma=sigma, network=network, radii=radii, same_draws=same_draws)


def page(found: Board, out: Path, radii: Sequence[float] | None = None) -> Path:
    """Write all of it as one HTML page, with curves; the same numbers as in the table."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {out.name!r}")
    others = [(results, comparison) for results, comparison in ordered(found) if comparison is not None]
    write_report(
        [*found.runs, *(results for results, _ in others)],
        out,
        radii=None if radii is None else list(radii),
        published={results.name: _ahead(comparison) for results, comparison in others}
        | {run.name: None for run in found.runs if is_log(run)},
    )
    return out


def table(found: Board, radii: Sequence[float] | None = None) -> FittingTable:
    """A row each, the largest ACR first; published ones with how far the first run is ahead."""
    rows = ordered(found)
    chosen = list(radii) if radii is not None else usual_radii([results for results, _ in rows])
    shares = [asked_shares(results.records, chosen) for results, _ in rows]
    own = {id(run) for run in found.runs}
    columns = [Column("ACR", [Text(_acr(results)) for results, _ in rows])]
    columns.append(Column(f"{found.runs[0].name} is ahead by", [Text(_words(comparison)) for _, comparison in rows]))
    for number, radius in enumerate(chosen):
        columns.append(Column(radius_title(radius), [Text(_percent(one[number])) for one in shares]))
    names = [Text(results.name, style="bold" if id(results) in own else "") for results, _ in rows]
    caption = (
        f"{found.inputs} test images of {found.data}, the same for all. ACR: average certified l2 radius; then the "
        "difference with its 95% interval, paired by image; then certified accuracy in % at each radius. Published "
        "rows are of their authors' logs, one training each"
    )
    if found.recounted is not None:
        draws, alpha = found.recounted
        caption += f"; their {RECOUNTED.format(draws=draws, alpha=alpha)}."
    else:
        caption += f", {OF_ALL}, radii rounded to three digits."
        own_draws = [bound_draws(run) for run in found.runs]
        for run, own_one in zip(found.runs, own_draws, strict=True):
            if own_one is not None and own_one[0] < PUBLISHED_DRAWS:
                caption += f" {run.name} has {own_one[0]:,}, and so shows smaller radii than it would with as many."
        if len(set(own_draws)) == 1 and own_draws[0] is not None and own_draws[0][0] < PUBLISHED_DRAWS:
            caption += " --same-draws brings the published rows down to that number."
    if any(None in one for one in shares):
        caption += f" {NOT_ASKED}: the run was not asked about such radii, and its ACR is a lower bound."
    return FittingTable(names, columns, caption=caption)


def ordered(found: Board) -> list[tuple[Results, Comparison | None]]:
    """All rows, the largest ACR first, published ones with their comparison."""
    rows: list[tuple[Results, Comparison | None]] = [(run, None) for run in found.runs]
    rows += list(zip(found.published, found.against, strict=True))
    return sorted(rows, key=lambda row: -average_certified_radius(row[0].records))


def to_json(found: Board) -> dict[str, Any]:
    """All of it, JSON-able."""
    return {
        "data": found.data,
        "inputs": found.inputs,
        "same_draws": None if found.recounted is None else found.recounted[0],
        "runs": [{"name": run.name, "acr": average_certified_radius(run.records)} for run in found.runs],
        "published": [
            asdict(log)
            | {"source": log.source, "acr": comparison.acr_b, "same_question": comparison.same_question}
            | {"ahead": comparison.acr_difference, "interval": asdict(comparison.acr_interval)}
            for log, comparison in zip(found.logs, found.against, strict=True)
        ],
    }


def sources_of(found: Board) -> list[str]:
    """Whose logs they are, each once."""
    return sorted({log.source for log in found.logs})


def is_log(results: Results) -> bool:
    """Whether somebody else certified it, and published the log."""
    return results.settings.source is not None


def _acr(results: Results) -> str:
    """What we claim is rounded down; what others published to nearest, as they did."""
    value = average_certified_radius(results.records)
    return nearest(value, 4) if is_log(results) else down(value, 4)


def _percent(share: Share | None) -> str:
    return NOT_ASKED if share is None else percent(share.value)


def _ahead(comparison: Comparison) -> Ahead | None:
    """How far the first run is ahead; None where both were not asked the same."""
    if not comparison.same_question:
        return None
    value, ends = comparison.acr_difference, comparison.acr_interval
    return Ahead(value, plus(down(value, 4)), plus(down(ends.low, 4)), plus(up(ends.high, 4)))


def _words(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    ahead = _ahead(comparison)
    return NOT_ASKED if ahead is None else f"{ahead.text} ({ahead.low} to {ahead.high})"
