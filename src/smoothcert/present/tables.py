"""A summary as text: for the terminal (rich) and as Markdown.

Nothing printed flatters: claims are rounded down, abstentions up, intervals outwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from smoothcert.analysis.measures import Interval, Share
from smoothcert.analysis.seeds import Average
from smoothcert.analysis.summary import MOST_RADII, Row, Summary
from smoothcert.stats.rounding import down, percent, up

RADIUS_DIGITS = 4


def rich_table(summary: Summary) -> Table:
    """The summary for a terminal of 100 columns: per result a line of values and, below, the ends of their intervals.

    More than 8 radii go on in further tables below, so that no number is cut.
    """
    blocks = [range(i, min(i + MOST_RADII, len(summary.radii))) for i in range(0, len(summary.radii), MOST_RADII)]
    tables = [_block(summary, block) for block in blocks or [range(0)]]
    if len(tables) == 1:
        return tables[0]
    outer = Table.grid()
    for table in tables:
        outer.add_row(table)
    return outer


def markdown(summary: Summary) -> str:
    """The summary as a Markdown table, intervals in brackets, followed by its warnings and notes."""
    header = ["name", "noise", "inputs", "ACR", *map(radius_title, summary.radii), "abstained", "draws", "seconds"]
    lines = [_line(header), _line(["---", "---", *["---:"] * (len(header) - 2)])]
    for row in summary.rows:
        cells = [row.name, row.noise or "", f"{row.inputs} ({row.subset})", _acr(row)]
        cells += [share_text(share) for share in row.accuracy]
        cells += [share_text(row.abstentions, ceiling=True), _draws(row), _seconds(row)]
        lines.append(_line(cells))
    for average in summary.averages:
        shares = [_spread(percent(s.mean), percent(s.deviation, ceiling=True)) for s in average.accuracy]
        lines.append(_line([average.title, "", "", _average_acr(average), *shares, "", "", ""]))
    lines += ["", f"{_caption(summary)} Draws and seconds are per input."]
    lines += [f"\n{cost}." for cost in summary.costs]
    lines += [f"\n**Warning.** {warning}" for warning in summary.warnings]
    lines += [f"\nNote: {note}." for note in summary.notes]
    return "\n".join(lines) + "\n"


def _block(summary: Summary, columns: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.caption = Text(_caption(summary))
    table.add_column("", overflow="fold", min_width=16)
    table.add_column("", style="dim", justify="right", no_wrap=True)
    for title in ("ACR", *(radius_title(summary.radii[i]) for i in columns), "abstain"):
        table.add_column(title, justify="right", no_wrap=True)
    for number, row in enumerate(summary.rows):
        accuracy = [row.accuracy[i] for i in columns]
        numbers = [_stacked(down(row.acr, RADIUS_DIGITS), radius_ends(row.acr_interval))]
        numbers += [_stacked(percent(share.value), percent_ends(share.interval)) for share in accuracy]
        numbers.append(_stacked(percent(row.abstentions.value, ceiling=True), percent_ends(row.abstentions.interval)))
        last = number + 1 == len(summary.rows) and not summary.averages
        table.add_row(_title(row), "\nlow\nhigh", *numbers, end_section=not last)
    for average in summary.averages:
        spreads = [average.accuracy[i] for i in columns]
        cells = [_stacked(down(average.acr.mean, RADIUS_DIGITS), (up(average.acr.deviation, RADIUS_DIGITS),))]
        cells += [_stacked(percent(s.mean), (percent(s.deviation, ceiling=True),)) for s in spreads]
        table.add_row(Text(average.title, style="bold"), "\n±", *cells, "")
    return table


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
    at = f", certified accuracy in % at each{of} radius" if summary.radii else ""
    spread = " ± is the standard deviation over runs." if summary.averages else ""
    return (
        f"ACR: average certified{of} radius{at}; abstentions count as wrong. "
        f"Intervals are of 95%.{spread} Claims are rounded down, abstentions up."
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
