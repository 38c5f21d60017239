"""How strong the noise of each input was: where every input has its own, this is what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.noise.base import noise_kind
from smoothcert.present.figures.canvas import (
    COLOURS,
    FIGURES,
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

BINS = 24


def strengths(result: Results) -> list[float]:
    """The strength of the noise of each input, from its certificate; refused where it is not recorded."""
    found = []
    for record in result.records:
        noise = {} if record.certificate is None else record.certificate.noise
        kind = noise_kind(noise)
        value = None if kind is None else noise.get(kind.strength_name)
        if not isinstance(value, int | float):
            raise InputError(f"{result.name} does not record the noise of its inputs; give a run made by certify")
        found.append(float(value))
    return found


def sigma_histogram(results: Sequence[Results], path: str | Path) -> Path:
    """Draw how many inputs have which sigma (or half width, scale, keep probability), one histogram per result."""
    check_name(path)
    return save(sigma_histogram_figure(results), path)


@FIGURES.named("sigma")
def sigma_histogram_figure(results: Sequence[Results]) -> Figure:
    """The figure of `sigma_histogram`."""
    refuse_none(results)
    values = [np.array(strengths(result)) for result in results]
    low, high = min(v.min() for v in values), max(v.max() for v in values)
    room = 0.05 * (high - low or abs(high))
    edges = np.linspace(low - room, high + room, BINS + 1)
    figure, axes = canvas(height=3.3 + 0.17 * len(results))
    for number, (result, v) in enumerate(zip(results, values, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        counts, _ = np.histogram(v, edges)
        title = f"median {np.median(v):.3g}   {short(result.name)}"
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.25)
        axes.stairs(counts, edges, color=colour, linewidth=1.3, label=title)
    names = sorted({_strength_name(result) for result in results})
    label(axes, f"Noise of the input ({', '.join(names)})", "Inputs")
    axes.set_xlim(edges[0], edges[-1])
    legend_above(axes)
    return figure


def _strength_name(result: Results) -> str:
    certificate = result.records[0].certificate
    kind = noise_kind(certificate.noise) if certificate else None
    name = kind.strength_name if kind else "strength"
    return {"sigma": r"$\sigma$", "half_width": "half width"}.get(name, name)
