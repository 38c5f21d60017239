"""Inputs under the noise that all begin with, and under their own (Alfarra et al. 2022, figures 6 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.present.figures.canvas import INK, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Image = npt.NDArray[np.uint8]
SIDE = 1.45  # inches of a picture


@dataclass(frozen=True)
class NoisyImage:
    """One input, uint8 (C, H, W): as it is, under the first strength of the noise, and under the one that it chose."""

    name: str
    clean: Image
    first: Image
    own: Image
    first_strength: float
    own_strength: float


def noise_images_figure(weaker: Sequence[NoisyImage], stronger: Sequence[NoisyImage]) -> Figure:
    """To the left inputs that chose weaker noise than all begin with, to the right stronger; three pictures each."""
    groups = [group for group in (weaker, stronger) if group]
    if not groups:
        raise InputError("no input of the run chose another strength of the noise than it began with")
    rows = max(len(group) for group in groups)
    columns = 3 * len(groups)
    figure, cells = panels(rows, columns, SIDE * columns + 0.3 * (len(groups) - 1), (SIDE + 0.28) * rows)
    for line in cells:
        for axes in line:
            axes.set_axis_off()
    for side, group in enumerate(groups):
        for row, image in enumerate(group):
            texts = (image.name, rf"$\sigma_0$ = {image.first_strength:g}", rf"$\sigma^*$ = {image.own_strength:.3g}")
            pictures = zip((image.clean, image.first, image.own), texts, strict=True)
            for column, (picture, text) in enumerate(pictures):
                _show(cells[row][3 * side + column], picture, text)
    return figure


def _show(axes: Axes, picture: Image, text: str) -> None:
    shown = picture.transpose(1, 2, 0) if len(picture) == 3 else picture[0]
    axes.imshow(shown, cmap=None if len(picture) == 3 else "gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_title(text, fontsize=9, color=INK, pad=3)
