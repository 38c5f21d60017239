"""A comparison for the terminal: one line per number, the difference with its interval, who wins, and the p-value."""

from __future__ import annotations

from rich.text import Text

from smoothcert.analysis.comparison import Comparison, SignTest, plus
from smoothcert.analysis.measures import Interval
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.tables import RADIUS_DIGITS, percent_ends, radius_ends, radius_title
from smoothcert.stats.rounding import down, percent, up

TITLES = ("A", "B", "A - B", "low", "high", "only A", "only B", "p")
STYLES = {"low": "dim", "high": "dim"}
CAPTION = (
    "A - B with its 95% interval, paired by input. Only A, only B: inputs where only that one has the larger correct "
    "radius (ACR), or certifies the radius. p: exact sign test of these two counts, not corrected for several radii."
)


def comparison_table(comparison: Comparison) -> FittingTable:
    """The comparison for a terminal of any width. Accuracies are in percent; intervals are rounded outwards."""
    acr = [down(value, RADIUS_DIGITS) for value in (comparison.acr_a, comparison.acr_b)]
    size, ends = down(abs(comparison.acr_difference), RADIUS_DIGITS), radius_ends(comparison.acr_interval)
    change = _change(comparison.acr_difference, size, comparison.acr_interval)
    rows = [[*map(Text, acr), change, *map(Text, map(plus, ends)), *_counts(comparison.radii)]]
    for at in comparison.accuracy:
        shares, ends = [percent(at.a.value), percent(at.b.value)], percent_ends(at.interval)
        change = _change(at.difference, percent(abs(at.difference)), at.interval)
        rows.append([*map(Text, shares), change, *map(Text, map(plus, ends)), *_counts(at.only)])
    columns = [Column(title, [row[i] for row in rows], STYLES.get(title, "")) for i, title in enumerate(TITLES)]
    names = [Text("ACR"), *(Text(f"% at {radius_title(at.radius)}") for at in comparison.accuracy)]
    title = f"A: {comparison.a}\nB: {comparison.b}\n{comparison.inputs} shared inputs"
    return FittingTable(names, columns, title=title, caption=CAPTION)


def p_text(p: float) -> str:
    """A p-value with four decimals, rounded up."""
    return "<0.0001" if p < 1e-4 else up(p, 4)


def _counts(test: SignTest) -> list[Text]:
    return [Text(str(test.a)), Text(str(test.b)), Text(p_text(test.p_value))]


def _change(difference: float, size: str, interval: Interval) -> Text:
    """A difference, rounded towards 0; bold where the interval excludes 0."""
    text = plus(f"-{size}" if difference < 0 else size)
    return Text(text, style="bold" if interval.low > 0 or interval.high < 0 else "")
