"""The studies that there are, and what one of them would do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from smoothcert.present.fitting import Column, FittingTable
from smoothcert.workflows.studies.plan import plan
from smoothcert.workflows.studies.study import load_study, study_names
from smoothcert.workflows.studies.sweep import swept


def listing() -> FittingTable:
    """A line per study."""
    studies = [load_study(name) for name in study_names()]
    columns = {"scales": [", ".join(one.scale) for one in studies], "rows": [str(len(one.cell)) for one in studies]}
    return FittingTable(
        [Text(f"{one.name}\n{one.title}") for one in studies],
        [Column(title, [Text(cell) for cell in cells]) for title, cells in columns.items()],
        caption="What one would do: smoothcert study NAME. Do it: smoothcert study NAME --scale SCALE --out DIR.",
    )


def plan_text(name: str, scale: str | None, sweeps: Sequence[str] = ()) -> str:
    """What a study would do at a scale: trainings with what they cost, passes of certification, rows."""
    chosen = plan(swept(load_study(name), sweeps), scale)
    hours = chosen.core_hours
    lines = [
        f"{chosen.study.title}",
        f"{chosen.study.citation}; scale {chosen.scale} of {', '.join(chosen.study.scale)}",
    ]
    lines += [f"train {folder}: seeds {', '.join(map(str, seeds))}" for folder, (_, seeds) in chosen.trainings.items()]
    lines += [
        f"train {router.folder}: a router between {', '.join(f'{sigma:g}' for sigma, _ in router.routes)}"
        for router in chosen.routers
    ]
    if chosen.trainings:
        cost = (
            "at a cost nobody measured"
            if hours is None
            else f"about {float(f'{hours:.2g}'):g} core-hours without a GPU"
        )
        lines.append(f"training takes {cost}")
    for row in chosen.rows:
        how = row.certification
        said = (
            ""
            if row.cell.published is None or row.cell.published.acr is None
            else f", published {row.cell.published.acr:g}"
        )
        lines.append(f"row {row.cell.name}: {how.procedure} n={how.n or 'default'} on {row.data}{said}")
    lines += [f"left out: {reason}" for reason in chosen.left_out]
    return "\n".join([*lines, *chosen.study.notes, "do it: add --out DIR"])
