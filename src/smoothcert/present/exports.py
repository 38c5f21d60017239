"""A summary for papers and spreadsheets: LaTeX (booktabs) and CSV. Rounded as in the terminal: nothing flatters."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from smoothcert.analysis.envelope import UpperEnvelope
from smoothcert.analysis.seeds import Average
from smoothcert.analysis.summary import Row, Summary
from smoothcert.present.hardness_table import TITLES, hardness_cells, hardness_latex, has_hardness
from smoothcert.present.tables import RADIUS_DIGITS, percent_ends, radius_ends, radius_title
from smoothcert.stats.rounding import down, percent, up

SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip
NOT_ASKED = "--"
NORMS = {"l0": r"$\ell_0$", "l1": r"$\ell_1$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}


def latex(summary: Summary) -> str:
    """The summary as a LaTeX table in the papers' layout; needs `\\usepackage{booktabs}`.

    One line per result: ACR and certified accuracy in percent at each radius, rounded down, the largest of each column
    in bold. The caption says how far the intervals reach, and whatever keeps the rows from being compared. A second
    tabular has how many inputs are hard, where that is known.
    """
    rivals = [row for row in summary.rows if not row.settings.oracle]
    columns = [[row.acr for row in rivals]]
    columns += [[s.value for row in rivals if (s := row.accuracy[i]) is not None] for i in range(len(summary.radii))]
    # Bold says "best": of one row, or of rows that are no comparison, there is none.
    largest = [max(column, default=None) if len(rivals) > 1 and not summary.warnings else None for column in columns]
    norms = sorted({row.norm for row in summary.rows if row.norm is not None})
    of = " and ".join(NORMS.get(norm, _escaped(norm)) for norm in norms)
    wide = len(summary.radii)
    lines = [r"\begin{table}", r"\centering", f"\\caption{{{_caption(summary)}}}"]
    lines += [f"\\begin{{tabular}}{{l{'r' * (1 + wide)}}}", r"\toprule"]
    if wide:
        title = " ".join(filter(None, ["Certified accuracy (\\%) at", of, "radius"]))
        lines += [f" & & \\multicolumn{{{wide}}}{{c}}{{{title}}} \\\\", f"\\cmidrule(l){{3-{2 + wide}}}"]
    lines += [_line(["Model", "ACR", *map(radius_title, summary.radii)]), r"\midrule"]
    lines += [_line(_cells(row, largest)) for row in summary.rows]
    if summary.envelope is not None:
        lines += [r"\midrule", _line(_envelope(summary.envelope))]
    if summary.averages:
        lines += [r"\midrule", *(_line(_average(average)) for average in summary.averages)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if has_hardness(summary):
        lines += hardness_latex([[_escaped(row.name), *hardness_cells(row.hardness)] for row in summary.rows])
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def comma_separated(summary: Summary) -> str:
    """The summary as CSV: one line per result, every number with the ends of its interval in columns of their own.

    Accuracies are in percent, and draws and seconds per input. Averages over seeds have a column `sd`, and no interval;
    nor has the upper envelope. Where a radius was not asked the cell is empty. What is known of hard inputs has the
    last columns. Full precision is in the JSON.
    """
    ends = ["low", "high", *(["sd"] if summary.averages else [])]
    numbers = ["ACR", *(f"% at {radius_title(radius)}" for radius in summary.radii)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [name for number in numbers for name in (number, *(f"{number} {end}" for end in ends))]
    hard = [("% " if "<" in title else "") + title for title in TITLES] if has_hardness(summary) else []
    writer.writerow(["name", "noise", "norm", "inputs", "subset", *columns, "% abstained", "draws", "seconds", *hard])
    blank = [""] if summary.averages else []
    for row in summary.rows:
        cells = [row.name, row.noise or "", row.norm or "", str(row.inputs), row.subset]
        cells += [down(row.acr, RADIUS_DIGITS), *radius_ends(row.acr_interval), *blank]
        for share in row.accuracy:
            known = ["", "", ""] if share is None else [percent(share.value), *percent_ends(share.interval)]
            cells += [*known, *blank]
        costs = ["" if x is None else f"{x:.6g}" for x in (row.mean_draws, row.mean_seconds)]
        cells += [percent(row.abstentions.value, ceiling=True), *costs]
        writer.writerow([*cells, *(hardness_cells(row.hardness) if hard else [])])
    if summary.envelope is not None:
        numbers = [down(summary.envelope.acr, RADIUS_DIGITS)]
        numbers += ["" if share is None else percent(share.value) for share in summary.envelope.accuracy]
        cells = [cell for number in numbers for cell in (number, "", "", *blank)]
        writer.writerow([summary.envelope.name, *[""] * 4, *cells, "", "", "", *[""] * len(hard)])
    for average in summary.averages:
        cells = [average.title, *[""] * 4]
        cells += [down(average.acr.mean, RADIUS_DIGITS), "", "", up(average.acr.deviation, RADIUS_DIGITS)]
        for at in average.accuracy:
            known = ["", "", "", ""]
            cells += known if at is None else [percent(at.mean), "", "", percent(at.deviation, ceiling=True)]
        writer.writerow([*cells, "", "", "", *[""] * len(hard)])
    return out.getvalue()


def _cells(row: Row, largest: Sequence[float | None]) -> list[str]:
    numbers = [(row.acr, down(row.acr, RADIUS_DIGITS))]
    numbers += [(-1.0, NOT_ASKED) if s is None else (s.value, percent(s.value)) for s in row.accuracy]
    if row.settings.oracle:
        return [_escaped(row.name), *(text for _, text in numbers)]
    bold = [
        f"\\textbf{{{text}}}" if value == best else text for (value, text), best in zip(numbers, largest, strict=True)
    ]
    return [_escaped(row.name), *bold]


def _envelope(envelope: UpperEnvelope) -> list[str]:
    shares = [NOT_ASKED if share is None else percent(share.value) for share in envelope.accuracy]
    return ["Upper envelope (UE)", down(envelope.acr, RADIUS_DIGITS), *shares]


def _average(average: Average) -> list[str]:
    acr = f"{down(average.acr.mean, RADIUS_DIGITS)} $\\pm$ {up(average.acr.deviation, RADIUS_DIGITS)}"
    shares = [
        NOT_ASKED if at is None else f"{percent(at.mean)} $\\pm$ {percent(at.deviation, ceiling=True)}"
        for at in average.accuracy
    ]
    return [_escaped(average.title), acr, *shares]


def _caption(summary: Summary) -> str:
    sentences = ["Certified accuracy and average certified radius (ACR), rounded down; abstentions count as wrong."]
    shares = [share for row in summary.rows for share in row.accuracy if share is not None]
    reach = [max(s.interval.high - s.value, s.value - s.interval.low) for s in shares]
    reach_acr = [max(row.acr_interval.high - row.acr, row.acr - row.acr_interval.low) for row in summary.rows]
    ends = [f"{up(max(reach_acr), RADIUS_DIGITS)} of ACR"]
    ends += [f"{percent(max(reach), ceiling=True)} points of accuracy"] if reach else []
    sentences.append(f"95\\% intervals reach at most {' and '.join(ends)} to either side.")
    if has_hardness(summary):
        sentences.append(
            "Below: hard inputs, by the lower bound of $p_A$ (0 where wrong), and the ACR of the harder half."
        )
    if any(share is None for row in summary.rows for share in row.accuracy):
        sentences.append(f"{NOT_ASKED}: not asked.")
    if summary.envelope is not None:
        sentences.append("UE: the largest of each number.")
    sentences += [f"Note: {_escaped(note)}." for note in summary.notes]
    sentences += [f"\\textbf{{Warning.}} {_escaped(warning)}." for warning in summary.warnings]
    return " ".join(sentences)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda match: SPECIAL[match.group()], " ".join(text.split()))
