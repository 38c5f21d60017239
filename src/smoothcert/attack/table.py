"""What attacks leave beside what is certified: one line per radius (Liu et al. 2021, table 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from smoothcert.analysis.measures import Share
from smoothcert.attack.records import Attacked
from smoothcert.core.errors import InputError
from smoothcert.present.tables import radius_title, share_text


@dataclass(frozen=True)
class RobustAccuracy:
    """At one radius: inputs that are certified and right, and inputs whose right answer each adversary left."""

    radius: float
    certified: Share
    left: dict[str, Share]  # by adversary
    left_by_all: Share

    def to_json(self) -> dict[str, Any]:
        """Counts, shares and intervals."""
        left = {name: share.to_json() for name, share in self.left.items()}
        return {"radius": self.radius, "certified": self.certified.to_json()} | {
            "left": left,
            "left_by_all": self.left_by_all.to_json(),
        }


def robust_accuracies(attacked: Sequence[Attacked], radii: Sequence[float]) -> tuple[RobustAccuracy, ...]:
    """One per radius. Certified accuracy is a lower bound of the robust accuracy, what attacks leave an upper one."""
    if not attacked:
        raise InputError("no input has been attacked yet; run the attack command again to go on")
    total, adversaries = len(attacked), list(attacked[0].distances)
    return tuple(
        RobustAccuracy(
            radius,
            Share(sum(a.certified == a.label and a.radius >= radius for a in attacked), total),
            {name: Share(sum(a.survives(radius, name) for a in attacked), total) for name in adversaries},
            Share(sum(a.survives(radius) for a in attacked), total),
        )
        for radius in radii
    )


def attack_table(rows: Sequence[RobustAccuracy]) -> Table:
    """For a terminal: percentages with their 95% intervals, certified ones rounded down, what is left rounded up."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.caption = Text(
        f"Right answers in % of {rows[0].certified.total} inputs at each l2 radius, with 95% intervals: certified (no "
        "attack can do anything), and left by each adversary (it found nothing; another one might)."
    )
    adversaries = list(rows[0].left)
    for title in ("radius", "certified", *(f"left by {name}" for name in adversaries), "left by all"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        left = [share_text(row.left[name], ceiling=True) for name in adversaries]
        table.add_row(
            radius_title(row.radius), share_text(row.certified), *left, share_text(row.left_by_all, ceiling=True)
        )
    return table
