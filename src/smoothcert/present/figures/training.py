"""Training curves: loss, and accuracy under noise, over the epochs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.core.errors import InputError
from smoothcert.present.figures.canvas import (
    COLOURS,
    DASHES,
    FAINT,
    INK,
    canvas,
    check_name,
    label,
    legend_above,
    refuse_none,
    save,
    short,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TrainingLog = Sequence[Mapping[str, Any]]


def training_curves(logs: Sequence[str | Path], path: str | Path) -> Path:
    """Draw the `log.jsonl` of one or more trainings to a PNG, SVG or PDF file (by suffix); equal logs, equal file."""
    check_name(path)
    names = [Path(log).resolve().parent.name for log in logs]
    return save(training_curves_figure(dict(zip(names, map(read_training_log, logs), strict=True))), path)


def training_curves_figure(logs: Mapping[str, TrainingLog]) -> Figure:
    """The figure of `training_curves`: loss to the left (solid), accuracy to the right (dotted), a colour per log."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  (half a second that only figures should cost)

    refuse_none(list(logs.values()))
    figure, axes = canvas(height=3.5 + 0.17 * len(logs))
    right = axes.twinx()
    right.spines[["top", "left", "bottom"]].set_visible(False)
    right.spines["right"].set_color(FAINT)
    right.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for number, (name, log) in enumerate(logs.items()):
        colour = COLOURS[number % len(COLOURS)]
        epochs = [epoch["number"] for epoch in log]
        axes.plot(epochs, [epoch["loss"] for epoch in log], color=colour, linewidth=1.4, label=short(name))
        measured = [(epoch["number"], 100 * epoch["accuracy"]) for epoch in log if epoch["accuracy"] is not None]
        if measured:
            right.plot(*zip(*measured, strict=True), color=colour, linewidth=1.2, linestyle=DASHES[2])
    label(axes, "Epoch", "Loss (solid)")
    right.set_ylabel("Accuracy under noise (%, dotted)", color=INK, fontsize=10)
    axes.set_ylim(bottom=0)
    right.set_ylim(0, 100)
    legend_above(axes)
    return figure


def read_training_log(path: str | Path) -> TrainingLog:
    """The epochs of a `log.jsonl`."""
    try:
        log = [json.loads(line) for line in Path(path).read_text().splitlines()]
        wanted = {"number", "loss", "accuracy"}
        if not log or not all(isinstance(epoch, dict) and wanted <= set(epoch) for epoch in log):
            raise ValueError
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is not the log of a training: it should have one JSON object per epoch") from None
    return log
