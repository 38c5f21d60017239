"""How sure results are of each input, beside the ACR: for the terminal, Markdown, LaTeX and CSV.

Shares of hard inputs are rounded up, bounds and radii down: nothing flatters.
"""

from __future__ import annotations

from rich.text import Text

from smoothcert.analysis.hardness import LEVELS, Hardness
from smoothcert.analysis.summary import Row, Summary
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.stats.rounding import down, percent

DIGITS = 4
TITLES = (*(f"p_A<{level:g}" for level in LEVELS), "median p_A", "hard-half ACR")
CAPTION = (
    "Inputs in % whose lower bound of p_A is below each level (0 where wrong), the median of that bound, and the ACR "
    "of the half of the inputs with the smallest radii. An ACR alone grows on easy inputs (Sun et al. 2025)."
)
OF_LOGS = " p_A of public logs is what their radii say, with the sigma that their name says."
UNKNOWN = "–"


def has_hardness(summary: Summary) -> bool:
    """Whether there is anything to show."""
    return any(row.hardness is not None for row in summary.rows)


def hardness_table(summary: Summary) -> FittingTable:
    """For a terminal of any width: a line of values per result and, below, the ends of the intervals of shares."""
    rows = [_texts(row) for row in summary.rows]
    columns = [Column(title, [row[i] for row in rows]) for i, title in enumerate(TITLES)]
    names = [Text(row.name, style="bold") for row in summary.rows]
    return FittingTable(
        names,
        columns,
        [("",) if row.hardness is None else ("", "low", "high") for row in summary.rows],
        caption=f"{_caption(summary)} Intervals are of 95%.",
        sections=True,
    )


def _caption(summary: Summary) -> str:
    logs = any(row.settings.log_sigma is not None for row in summary.rows)
    return CAPTION + OF_LOGS if logs else CAPTION


def hardness_cells(found: Hardness | None) -> list[str]:
    """The numbers of a result, without intervals; empty where they are not known."""
    if found is None:
        return [""] * len(TITLES)
    shares = [percent(share.value, ceiling=True) for share in found.below]
    return [*shares, down(found.median, DIGITS), down(found.hard_half, DIGITS)]


def _texts(row: Row) -> list[Text]:
    found = row.hardness
    if found is None:
        return [Text(UNKNOWN)] * len(TITLES)
    texts = [Text(cell) for cell in hardness_cells(found)]
    for text, share in zip(texts, found.below, strict=False):
        low, high = share.interval.low, share.interval.high
        text.append(f"\n{percent(low)}\n{percent(high, ceiling=True)}", style="dim")
    return texts


def hardness_markdown(summary: Summary) -> list[str]:
    """Lines of a Markdown table with its caption."""
    lines = ["| name | " + " | ".join(TITLES) + " |", "| --- |" + " ---: |" * len(TITLES)]
    for row in summary.rows:
        name = row.name.replace("|", "\\|")
        lines.append(f"| {name} | " + " | ".join(cell or UNKNOWN for cell in hardness_cells(row.hardness)) + " |")
    return [*lines, "", _caption(summary)]


def hardness_latex(rows: list[list[str]]) -> list[str]:
    """Lines of a tabular, from names that are escaped and cells; it goes below the table it belongs to."""
    wide, levels = len(TITLES), len(LEVELS)
    titles = ["Model", *(f"{level:g}" for level in LEVELS), "median $p_A$", "hard-half ACR"]
    return [
        r"\par\medskip", f"\\begin{{tabular}}{{l{'r' * wide}}}", r"\toprule",
        f" & \\multicolumn{{{levels}}}{{c}}{{Inputs (\\%) with $\\underline{{p_A}}$ below}} & & \\\\",
        f"\\cmidrule(l){{2-{1 + levels}}}", " & ".join(titles) + r" \\", r"\midrule",
        *(" & ".join(cell or "--" for cell in row) + r" \\" for row in rows),
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
