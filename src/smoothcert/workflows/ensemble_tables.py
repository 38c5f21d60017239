"""Rankings, weights and plans of ensembles, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from smoothcert.models.ensembles import Ranking, Weights
from smoothcert.workflows.ensemble import Plan


def ranking_table(members: Sequence[Path], ranking: Ranking) -> Table:
    """Members, the best one first."""
    table = Table("rank", "member", "accuracy under noise")
    for place, index in enumerate(ranking.order, start=1):
        table.add_row(str(place), escape(str(members[index])), f"{ranking.accuracy[index]:.4f}")
    return table


def weights_table(members: Sequence[Path], found: Weights) -> Table:
    """Members with their weights."""
    table = Table("member", "weight", caption=f"objective {found.objective:.6g}, at most {found.gap:.1e} to gain")
    for path, weight in zip(members, found.weights, strict=True):
        table.add_row(escape(str(path)), f"{weight:.4f}")
    return table


def plan_table(plan: Plan) -> Table:
    """A line per size of the ensemble."""
    columns = ("members", "variance left", "measured", "p_A", "radius", "accuracy", "evaluations", "with 2-consensus")
    table = Table(*columns, caption=f"zeta_p {plan.zeta_p:.3f}: more members cannot leave less of the variance")
    for row in plan.sizes:
        measured = ["-" if value is None else f"{value:.3f}" for value in (row.measured, row.accuracy)]
        table.add_row(
            str(row.size), f"{row.predicted:.3f}", measured[0], f"{row.p:.4f}", f"{row.radius:.4f}", measured[1],
            str(row.size), f"{row.consensus:.2f}",
        )  # fmt: skip
    return table
