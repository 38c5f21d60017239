"""A summary as text: for the terminal (rich) and as Markdown.

Nothing printed flatters: claims are rounded down, abstentions up, intervals outwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from smoothcert.analysis.envelope import UpperEnvelope
from smoothcert.analysis.measures import Interval, Share
from smoothcert.analysis.seeds import Average, MeanAndDeviation
from smoothcert.analysis.summary import Row, Summary
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.hardness_table import hardness_markdown, has_hardness
from smoothcert.stats.rounding import down, percent, up

RADIUS_DIGITS = 4
NOT_ASKED = "–"


def rich_table(summary: Summary) -> FittingTable:
    """The summary for a terminal of any width: per result a line of values and, below, the ends of their intervals."""
    names = [_title(row) for row in summary.rows]
    rows = [_cells(row) for row in summary.rows]
    labels: list[tuple[str, ...]] = [("", "low", "high")] * len(rows)
    if summary.envelope is not None:
        names.append(Text(summary.envelope.name, style="bold"))
        rows.append(_envelope_cells(summary.envelope))
        labels.append(("",))
    for average in summary.averages:
        names.append(Text(average.title, style="bold"))
        rows.append(_average_cells(average))
        labels.append(("", "±"))
    titles = ["ACR", *map(radius_title, summary.radii), "abstain"]
    columns = [Column(title, [row[i] for row in rows]) for i, title in enumerate(titles)]
    return FittingTable(names, columns, labels, caption=_caption(summary), sections=True)


def markdown(summary: Summary) -> str:
    """The summary as a Markdown table, intervals in brackets, followed by its warnings and notes."""
    header = ["name", "noise", "inputs", "ACR", *map(radius_title, summary.radii), "abstained", "draws", "seconds"]
    lines = [_line(header), _line(["---", "---", *["---:"] * (len(header) - 2)])]
    for row in summary.rows:
        cells = [row.name, row.noise or "", f"{row.inputs} ({row.subset})", _acr(row)]
        cells += ["not asked" if share is None else share_text(share) for share in row.accuracy]
        cells += [share_text(row.abstentions, ceiling=True), _draws(row), _seconds(row)]
        lines.append(_line(cells))
    if summary.envelope is not None:
        best = ["not asked" if share is None else percent(share.value) for share in summary.envelope.accuracy]
        acr = down(summary.envelope.acr, RADIUS_DIGITS)
        lines.append(_line([summary.envelope.name, "", "", acr, *best, "", "", ""]))
    for average in summary.averages:
        shares = [_average_share(at) for at in average.accuracy]
        lines.append(_line([average.title, "", "", _average_acr(average), *shares, "", "", ""]))
    lines += ["", f"{_caption(summary)} Draws and seconds are per input."]
    lines += ["", *hardness_markdown(summary)] if has_hardness(summary) else []
    lines += [f"\n{cost}." for cost in summary.costs]
    lines += [f"\n**Warning.** {warning}" for warning in summary.warnings]
    lines += [f"\nNote: {note}." for note in summary.notes]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[Text]:
    abstained = row.abstentions
    return [
        _stacked(down(row.acr, RADIUS_DIGITS), radius_ends(row.acr_interval)),
        *(Text(NOT_ASKED) if s is None else _stacked(percent(s.value), percent_ends(s.interval)) for s in row.accuracy),
        _stacked(percent(abstained.value, ceiling=True), percent_ends(abstained.interval)),
    ]


def _envelope_cells(envelope: UpperEnvelope) -> list[Text]:
    shares = [Text(NOT_ASKED if share is None else percent(share.value)) for share in envelope.accuracy]
    return [Text(down(envelope.acr, RADIUS_DIGITS)), *shares, Text("")]


def _average_cells(average: Average) -> list[Text]:
    acr = _stacked(down(average.acr.mean, RADIUS_DIGITS), (up(average.acr.deviation, RADIUS_DIGITS),))
    shares = [
        Text(NOT_ASKED) if at is None else _stacked(percent(at.mean), (percent(at.deviation, ceiling=True),))
        for at in average.accuracy
    ]
    return [acr, *shares, Text("")]


def _title(row: Row) -> Text:
    title = Text(row.name, style="bold")
    inputs = f"{row.inputs} inputs" + (f" of {row.planned}" if row.planned not in (None, row.inputs) else "")
    known = ", ".join(filter(None, [row.noise, f"{inputs}: {row.subset}"]))
    cost = ", ".join(f"{value} {unit}" for value, unit in ((_draws(row), "draws"), (_seconds(row), "s")) if value)
    title.append("\n".join(["", known, *([f"{cost} per input"] if cost else [])]), style="not bold dim")
    return title


def _stacked(value: str, ends: Sequence[str]) -> Text:
    text = Text(value)
    text.append("\n" + "\n".join(ends), style="dim")
    return text


def _caption(summary: Summary) -> str:
    norms = sorted({row.norm for row in summary.rows if row.norm is not None})
    of = f" {' and '.join(norms)}" if norms else ""
    nobody_knows = all(row.unlabelled for row in summary.rows)
    what = "inputs certified, right or not," if nobody_knows else "certified accuracy"
    at = f", {what} in % at each{of} radius" if summary.radii else ""
    spread = " ± is the standard deviation over runs." if summary.averages else ""
    shares = [share for row in summary.rows for share in row.accuracy]
    unknown = f" {NOT_ASKED}: the run was not asked about so large a radius." if None in shares else ""
    best = "" if summary.envelope is None else " UE: the largest of each number, whichever result has it."
    return (
        f"ACR: average certified{of} radius{at}; abstentions count as {'0' if nobody_knows else 'wrong'}. "
        f"Intervals are of 95%.{spread}{unknown}{best} Claims are rounded down, abstentions up."
    )


def radius_ends(interval: Interval) -> tuple[str, str]:
    """The ends of an interval of radii, rounded outwards."""
    return down(interval.low, RADIUS_DIGITS), up(interval.high, RADIUS_DIGITS)


def percent_ends(interval: Interval) -> tuple[str, str]:
    """The ends of an interval of shares in percent, rounded outwards."""
    return percent(interval.low), percent(interval.high, ceiling=True)


def _acr(row: Row) -> str:
    low, high = radius_ends(row.acr_interval)
    return f"{down(row.acr, RADIUS_DIGITS)} ({low}-{high})"


def share_text(share: Share, *, ceiling: bool = False) -> str:
    """A share in percent, rounded down or up, with its interval."""
    low, high = percent_ends(share.interval)
    return f"{percent(share.value, ceiling=ceiling)} ({low}-{high})"


def radius_title(radius: float) -> str:
    """In full: a column that claims more than was counted would be a false claim."""
    return repr(radius).removesuffix(".0")


def _average_acr(average: Average) -> str:
    return _spread(down(average.acr.mean, RADIUS_DIGITS), up(average.acr.deviation, RADIUS_DIGITS))


def _average_share(at: MeanAndDeviation | None) -> str:
    return "not asked" if at is None else _spread(percent(at.mean), percent(at.deviation, ceiling=True))


def _spread(mean: str, deviation: str) -> str:
    return f"{mean} ± {deviation}"


def _draws(row: Row) -> str:
    return _cost(row.mean_draws, row.draws_interval, ",.0f")


def _seconds(row: Row) -> str:
    return _cost(row.mean_seconds, row.seconds_interval, ".3g")


def _cost(mean: float | None, interval: Interval | None, form: str) -> str:
    """The mean with its interval; without where all inputs cost the same."""
    if mean is None:
        return ""
    ends = "" if interval is None else f"{interval.low:{form}}-{interval.high:{form}}"
    same = interval is None or interval.low == interval.high
    return f"{mean:{form}}" if same else f"{mean:{form}} ({ends})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
