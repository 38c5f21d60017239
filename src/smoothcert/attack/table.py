"""What attacks leave beside what is certified: one line per radius (Liu et al. 2021, table 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from smoothcert.analysis.measures import Share
from smoothcert.attack.records import Attacked
from smoothcert.core.errors import InputError
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.tables import radius_title, share_text


@dataclass(frozen=True)
class RobustAccuracy:
    """At one radius: inputs that are certified and right, and inputs whose right answer each adversary left."""

    radius: float
    certified: Share
    left: dict[str, Share]  # by adversary
    left_by_all: Share
    left_out: tuple[str, ...] = ()  # parts of adversaries that could not be run, and why, in words

    def to_json(self) -> dict[str, Any]:
        """Counts, shares and intervals."""
        left = {name: share.to_json() for name, share in self.left.items()}
        return {"radius": self.radius, "certified": self.certified.to_json()} | {
            "left": left,
            "left_by_all": self.left_by_all.to_json(),
            "left_out": list(self.left_out),
        }


def robust_accuracies(attacked: Sequence[Attacked], radii: Sequence[float]) -> tuple[RobustAccuracy, ...]:
    """One per radius. Certified accuracy is a lower bound of the robust accuracy, what attacks leave an upper one."""
    if not attacked:
        raise InputError("no input has been attacked yet; run the attack command again to go on")
    total, adversaries = len(attacked), list(attacked[0].distances)
    parts = {(name, part, why) for a in attacked for name, of in a.left_out.items() for part, why in of.items()}
    left_out = tuple(f"{name} without {part} ({why})" for name, part, why in sorted(parts))
    return tuple(
        RobustAccuracy(
            radius,
            Share(sum(a.certified == a.wanted and a.radius >= radius for a in attacked), total),
            {name: Share(sum(a.survives(radius, name) for a in attacked), total) for name in adversaries},
            Share(sum(a.survives(radius) for a in attacked), total),
            left_out,
        )
        for radius in radii
    )


def attack_table(rows: Sequence[RobustAccuracy]) -> FittingTable:
    """For a terminal: percentages with their 95% intervals, certified ones rounded down, what is left rounded up.

    What could not be run of an adversary is said below.
    """
    caption = (
        f"Right answers in % of {rows[0].certified.total} inputs at each l2 radius, with 95% intervals: certified (no "
        "attack can do anything), and left by each adversary (it found nothing; another one might)."
    )
    if rows[0].left_out:
        caption += f" Left out: {'; '.join(rows[0].left_out)}."
    columns = [Column("certified", [Text(share_text(row.certified)) for row in rows])]
    for name in rows[0].left:
        columns.append(Column(f"left by {name}", [Text(share_text(row.left[name], ceiling=True)) for row in rows]))
    columns.append(Column("left by all", [Text(share_text(row.left_by_all, ceiling=True)) for row in rows]))
    names = [Text(f"radius {radius_title(row.radius)}") for row in rows]
    return FittingTable(names, columns, caption=caption)
