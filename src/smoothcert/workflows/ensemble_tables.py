"""Rankings, weights and plans of ensembles, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from smoothcert.models.ensembles import Ranking, Weights
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.workflows.ensemble import Plan


def ranking_table(members: Sequence[Path], ranking: Ranking) -> FittingTable:
    """Members, the best one first."""
    names = [f"{place}. {members[index]}" for place, index in enumerate(ranking.order, start=1)]
    accuracy = [f"{ranking.accuracy[index]:.4f}" for index in ranking.order]
    return _table(names, {"accuracy under noise": accuracy})


def weights_table(members: Sequence[Path], found: Weights) -> FittingTable:
    """Members with their weights."""
    weights = [f"{weight:.4f}" for weight in found.weights]
    gain = "" if found.gap is None else f", at most {found.gap:.1e} to gain"
    caption = f"objective {found.objective:.6g}{gain}"
    return _table([str(path) for path in members], {"weight": weights}, caption)


def plan_table(plan: Plan) -> FittingTable:
    """A line per size of the ensemble."""
    columns = {
        "variance left": [f"{row.predicted:.3f}" for row in plan.sizes],
        "measured": [_or_dash(row.measured) for row in plan.sizes],
        "p_A": [f"{row.p:.4f}" for row in plan.sizes],
        "Chebyshev": [f"{row.chebyshev:.4f}" for row in plan.sizes],
        "radius": [f"{row.radius:.4f}" for row in plan.sizes],
        "accuracy": [_or_dash(row.accuracy) for row in plan.sizes],
        "with 2-consensus": [f"{row.consensus:.2f}" for row in plan.sizes],
    }
    names = [f"{row.size} member{'s' if row.size > 1 else ''}" for row in plan.sizes]
    caption = (
        f"zeta_p {plan.zeta_p:.3f}: more members cannot leave less of the variance under noise. zeta_c "
        f"{plan.zeta_c:.3f}: what these members have learned in common beyond the least related of them. p_A: for "
        "Gaussian margins; Chebyshev: its lower bound for any."
    )
    return _table(names, columns, caption)


def _table(names: Sequence[str], columns: dict[str, list[str]], caption: str = "") -> FittingTable:
    found = [Column(title, [Text(cell) for cell in cells]) for title, cells in columns.items()]
    return FittingTable([Text(name) for name in names], found, caption=caption)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
