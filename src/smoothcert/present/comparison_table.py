"""A comparison for the terminal: one line per number, the difference with its interval, who wins, and the p-value."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from smoothcert.analysis.comparison import Comparison, SignTest, plus
from smoothcert.analysis.measures import Interval
from smoothcert.present.tables import RADIUS_DIGITS, percent_ends, radius_ends, radius_title
from smoothcert.stats.rounding import down, percent, up

CAPTION = (
    "A - B with its 95% interval, paired by input. Only A, only B: inputs where only that one has the larger correct "
    "radius (ACR), or certifies the radius. p: exact sign test of these two counts, not corrected for several radii."
)


def comparison_table(comparison: Comparison) -> Table:
    """The comparison for a terminal of 100 columns. Accuracies are in percent; intervals are rounded outwards."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.caption = Text(CAPTION)
    table.title = Text(f"A: {comparison.a}\nB: {comparison.b}\n{comparison.inputs} shared inputs")
    table.title_justify = "left"
    table.add_column("", no_wrap=True)
    for title in ("A", "B", "A - B", "low", "high", "only A", "only B", "p"):
        table.add_column(title, justify="right", no_wrap=True, style="dim" if title in ("low", "high") else None)
    acr = [down(value, RADIUS_DIGITS) for value in (comparison.acr_a, comparison.acr_b)]
    size, ends = down(abs(comparison.acr_difference), RADIUS_DIGITS), radius_ends(comparison.acr_interval)
    change = _change(comparison.acr_difference, size, comparison.acr_interval)
    table.add_row("ACR", *acr, change, *map(plus, ends), *_sign_test(comparison.radii))
    for at in comparison.accuracy:
        shares, ends = [percent(at.a.value), percent(at.b.value)], percent_ends(at.interval)
        change = _change(at.difference, percent(abs(at.difference)), at.interval)
        table.add_row(f"% at {radius_title(at.radius)}", *shares, change, *map(plus, ends), *_sign_test(at.only))
    return table


def p_text(p: float) -> str:
    """A p-value with four decimals, rounded up."""
    return "<0.0001" if p < 1e-4 else up(p, 4)


def _sign_test(counts: SignTest) -> list[str]:
    return [str(counts.a), str(counts.b), p_text(counts.p_value)]


def _change(difference: float, size: str, interval: Interval) -> Text:
    """A difference, rounded towards 0; bold where the interval excludes 0."""
    text = plus(f"-{size}" if difference < 0 else size)
    return Text(text, style="bold" if interval.low > 0 or interval.high < 0 else "")
