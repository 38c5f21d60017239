"""How many inputs got a right, a wrong or no answer, as bars: the question that a curve hides at its left end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcert.analysis import Results
from smoothcert.present.figures import COLOURS, FIGURES, canvas, label, legend_above, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@FIGURES.named("answers")
def answers(results: Sequence[Results]) -> Figure:
    """A group of three bars per result."""
    figure, axes = canvas()
    for number, result in enumerate(results):
        given = [record.prediction for record in result.records]
        right = sum(record.prediction == record.label for record in result.records)
        counts = [right, len(given) - right - given.count(-1), given.count(-1)]
        places = [place + number / (len(results) + 1) for place in range(3)]
        colour = COLOURS[number % len(COLOURS)]
        axes.bar(places, counts, 0.9 / (len(results) + 1), color=colour, label=short(result.name))
    axes.set_xticks(range(3), ["right", "wrong", "abstained"])
    label(axes, "Answer", "Inputs")
    legend_above(axes)
    return figure
