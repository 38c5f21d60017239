"""Tables for terminals of any width: no digit is ever cut.

Columns that do not fit go on in a further table below, with the names again. Where hardly any fits, each row becomes a
list of its own; a terminal narrower than a number folds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

NAME_WIDTH, SHORT_NAME = 44, 16  # longer names are folded; shorter lines of them never
FEWEST = 4  # columns side by side, or half of all: with fewer a list reads better
GAP = 2  # between columns: the padding and the divider of the box


@dataclass(frozen=True)
class Column:
    """Numbers under a title, one cell per row of the table; a cell may have several lines."""

    title: str
    cells: Sequence[Text]
    style: str = ""

    @property
    def width(self) -> int:
        """As wide as its widest line."""
        return max(_width(Text(self.title)), *(_width(cell) for cell in self.cells), 0)


@dataclass(frozen=True)
class FittingTable:
    """Rows with a name each, and columns of numbers.

    `labels` says of each row what the lines of its cells are, where they have several: `("", "low", "high")`. With
    `sections` there is room between the rows.
    """

    names: Sequence[Text]
    columns: Sequence[Column]
    labels: Sequence[Sequence[str]] = ()
    title: str = ""
    caption: str = ""
    sections: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title)
        blocks = self._blocks(options.max_width)
        if blocks is None:
            yield from self._lists(options.max_width)
        for number, block in enumerate(blocks or []):
            yield from [Text("")] if number else []
            yield self._side_by_side(block, options.max_width)
        yield Text(f"\n{self.caption}", style="dim italic")

    def _least_name(self) -> int:
        """Names are not broken inside a word: half of "sigma0.25" would be another number."""
        words = [Text(word).cell_len for name in self.names for word in name.plain.split()]
        lines = [min(SHORT_NAME, _width(name)) for name in self.names]
        return min(NAME_WIDTH, max([*words, *lines], default=0))

    def _head_width(self) -> int:
        """The least that names and labels take."""
        labels = [Text(label).cell_len for row in self.labels for label in row]
        return self._least_name() + (GAP + max(labels) if labels else 0)

    def _blocks(self, width: int) -> list[list[Column]] | None:
        """Columns that fit side by side, in as few tables as it takes, about as many in each; None: too few would."""
        packed = self._packed(width, len(self.columns))
        if len(packed) > 1:
            packed = self._packed(width, -(-len(self.columns) // len(packed)))
        if any(self._head_width() + _needed(block) > width for block in packed):
            return None
        enough = min(FEWEST, -(-len(self.columns) // 2))
        return packed if len(packed) == 1 or len(packed[0]) >= enough else None

    def _packed(self, width: int, most: int) -> list[list[Column]]:
        blocks: list[list[Column]] = [[]]
        for column in self.columns:
            full = self._head_width() + _needed([*blocks[-1], column]) > width or len(blocks[-1]) == most
            if full and blocks[-1]:
                blocks.append([])
            blocks[-1].append(column)
        return blocks

    def _side_by_side(self, columns: Sequence[Column], width: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        rest = _needed(columns) + self._head_width() - self._least_name()
        most = max((_width(name) for name in self.names), default=0)
        table.add_column("", overflow="fold", width=min(most, width - rest))
        if self.labels:
            table.add_column("", style="dim", justify="right", no_wrap=True)
        for column in columns:
            table.add_column(Text(column.title), justify="right", no_wrap=True, style=column.style)
        for number, name in enumerate(self.names):
            cells = [column.cells[number] for column in columns]
            labels = [Text("\n".join(self.labels[number]))] if self.labels else []
            table.add_row(name, *labels, *cells, end_section=self.sections)
        return table

    def _lists(self, width: int) -> Iterator[Text | Table]:
        """Each row by itself: a line per column, or, where that is too wide, a line per number."""
        title = max((len(column.title) for column in self.columns), default=0)
        lines = max([1, *map(len, self.labels)])
        values = max((column.width for column in self.columns), default=0)
        wide = title + lines * (GAP + values) <= width
        for number, name in enumerate(self.names):
            yield name
            grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
            grid.add_column(overflow="fold", style="dim")
            for _ in range(lines if wide else 1):
                grid.add_column(justify="right", overflow="fold")
            labels = self.labels[number] if self.labels else ()
            if wide and any(labels):
                grid.add_row("", *(Text(label, style="dim") for label in labels))
            for column in self.columns:
                cell = column.cells[number].split("\n")
                if wide:
                    grid.add_row(Text(column.title), *cell)
                else:
                    for i, line in enumerate(cell):
                        words = [column.title, labels[i] if i < len(labels) else ""]
                        grid.add_row(Text(" ".join(filter(None, words))), line)
            yield grid
            yield Text("")


def _needed(columns: Sequence[Column]) -> int:
    return sum(GAP + column.width for column in columns)


def _width(text: Text) -> int:
    return max((line.cell_len for line in text.split("\n")), default=0)
