"""Several certificates as users see them: a list that prints as a table, and shows itself in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from smoothcert.core.pictures import data_uri
from smoothcert.core.text import visible
from smoothcert.procedures.certificate import INCLUSIVE, Certificate
from smoothcert.stats.rounding import down

MOST_ROWS = 60  # of a table: the first half of them and the last


class Certificates(list[Certificate]):
    """A list of certificates, in everything; printed, it is a table, one line for each.

    Args:
        certificates: one per input.
        class_names: what classes are called. Default: their numbers.
        input_names: what inputs are called. Default: their numbers.
        images: the inputs (B, ...), shown in notebooks where they are images: 1 or 3 channels with values in [0, 1].
    """

    def __init__(
        self,
        certificates: Iterable[Certificate] = (),
        *,
        class_names: Sequence[str] = (),
        input_names: Sequence[str] = (),
        images: npt.NDArray[Any] | None = None,
    ) -> None:
        super().__init__(certificates)
        self.class_names, self.input_names, self.images = tuple(class_names), tuple(input_names), images

    @overload
    def __getitem__(self, at: SupportsIndex) -> Certificate: ...
    @overload
    def __getitem__(self, at: slice) -> Certificates: ...
    def __getitem__(self, at: Any) -> Any:
        """A certificate, or a table of some."""
        found = super().__getitem__(at)
        if not isinstance(at, slice):
            return found
        images = None if self.images is None else self.images[at]
        return Certificates(found, class_names=self.class_names, input_names=self._names()[at], images=images)

    def __str__(self) -> str:
        if not self:
            return "no certificates"
        head = ["input", "class", self._radius_title(), "p at least", "draws"]
        rows = [head, *(self._cells(row) for row in self._shown())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines[0] = lines[0].replace("\n", " ")
        if len(self) > MOST_ROWS:
            lines.insert(1 + MOST_ROWS // 2, f"... {len(self) - MOST_ROWS} more ...")
        return "\n".join([*lines, self._claim()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the table, with a picture of each input that is an image and at hand."""
        pictures = self.images is not None and _is_images(self.images)
        titles = [*([""] if pictures else []), "input", "class", self._radius_title(), "p at least", "draws", "why"]
        head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
        rows = []
        for row in self._shown():
            cells = [html.escape(cell) for cell in (*self._cells(row), self[row].reason)]
            if pictures and self.images is not None:
                levels = np.rint(np.clip(self.images[row], 0, 1) * 255).astype(np.uint8)
                cells.insert(0, f'<img src="{data_uri(levels)}" height="48" alt="" style="image-rendering: pixelated">')
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        left_out = f"<p>{len(self) - MOST_ROWS} more are not shown.</p>" if len(self) > MOST_ROWS else ""
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>{left_out}<p>{html.escape(self._claim())}</p>"

    def _shown(self) -> list[int]:
        if len(self) <= MOST_ROWS:
            return list(range(len(self)))
        half = MOST_ROWS // 2
        return [*range(half), *range(len(self) - half, len(self))]

    def _cells(self, row: int) -> list[str]:
        one = self[row]
        name = visible(self._names()[row], lines=False)
        if one.abstained:
            return [name, "abstains", "-", "-", f"{one.draws}"]
        known = one.label < len(self.class_names)
        called = visible(self.class_names[one.label], lines=False) if known else f"{one.label}"
        # Rounded down: a printed claim must not exceed the proved one.
        return [name, called, down(one.radius, 4), down(one.p_lower, 4), f"{one.draws}"]

    def _names(self) -> tuple[str, ...]:
        return self.input_names or tuple(str(row) for row in range(len(self)))

    def _radius_title(self) -> str:
        norms = {one.norm for one in self}
        return f"{norms.pop()} radius" if len(norms) == 1 else "radius"

    def _claim(self) -> str:
        """What all of them say, in a sentence."""
        if not self:
            return ""
        scopes, alpha = sorted({one.scope.value for one in self}), max(one.alpha for one in self)
        reach = "up to" if {one.norm for one in self} == {INCLUSIVE} else "below"
        return (
            f"No perturbation {reach} the radius changes the answer ({', '.join(scopes)}); each is wrong with "
            f"probability at most {alpha:g}."
        )


def _is_images(x: npt.NDArray[Any]) -> bool:
    return x.ndim == 4 and x.shape[1] in (1, 3) and bool(x.size) and x.min() >= -0.01 and x.max() <= 1.01
