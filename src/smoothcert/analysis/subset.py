"""Which inputs of a data set were certified. Results on different subsets are not a comparison."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise


def common_step(indices: Collection[int]) -> int | None:
    """The distance between neighbouring indices if it is the same everywhere, else None (also for fewer than two)."""
    steps = {after - before for before, after in pairwise(sorted(indices))}
    return steps.pop() if len(steps) == 1 else None


def describe_subset(indices: Collection[int]) -> str:
    """The subset in words: "0-9980, every 20th"."""
    if len(indices) == 1:
        return str(min(indices))
    step, span = common_step(indices), f"{min(indices)}-{max(indices)}"
    if step is None:
        return f"{span}, irregular"
    return span if step == 1 else f"{span}, every {ordinal(step)}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, ..., 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
