"""The studies that there are, and what one of them would do and cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from smoothcert.present.fitting import Column, FittingTable
from smoothcert.workflows.studies.cost import TO_CERTIFY, cost, inputs_of
from smoothcert.workflows.studies.plan import Plan, Row, plan
from smoothcert.workflows.studies.study import Study, load_study, study_names
from smoothcert.workflows.studies.sweep import swept


def listing() -> FittingTable:
    """A line per study, with what it costs at each scale."""
    studies = [load_study(name) for name in study_names()]
    columns = {
        "rows": [str(len(one.cell)) for one in studies],
        "core-hours": ["\n".join(costs_of(one)) for one in studies],
    }
    return FittingTable(
        [Text(f"{one.name}\n{one.title}") for one in studies],
        [Column(title, [Text(cell) for cell in cells]) for title, cells in columns.items()],
        caption="core-hours: about, of one server core without a GPU, to train and certify all rows; at most, where a "
        "procedure may stop early. full: as in the paper.\n"
        "What a study would do: smoothcert study NAME --scale SCALE. Do it: add --out DIR.",
    )


def costs_of(study: Study) -> list[str]:
    """What the study costs at each of its scales, the first of which is the default."""
    return [f"{scale}: {_hours(cost(plan(study, scale)).total)}" for scale in study.scale]


def plan_text(name: str, scale: str | None, sweeps: Sequence[str] = ()) -> str:
    """What a study would do at a scale: trainings, rows, and what they cost."""
    study = swept(load_study(name), sweeps)
    chosen = plan(study, scale)
    lines = [
        study.title,
        f"{study.citation}; here at the scale {chosen.scale}",
        f"core-hours without a GPU at each scale: {', '.join(costs_of(study))}",
        *([] if not study.scale[chosen.scale].about else [study.scale[chosen.scale].about]),
        *(f"train {folder}: seeds {', '.join(map(str, seeds))}" for folder, (_, seeds) in chosen.trainings.items()),
        *(
            f"train {router.folder}: a router between {', '.join(f'{sigma:g}' for sigma, _ in router.routes)}"
            for router in chosen.routers
        ),
        *(_row(row) for row in chosen.rows),
        *(f"row {cell.name}: the best of {', '.join(cell.best_of)}" for cell in chosen.envelopes),
        *(f"left out: {reason}" for reason in chosen.left_out),
        *study.notes,
        _costs(chosen),
        "do it: add --out DIR",
    ]
    return "\n".join(lines)


def _row(row: Row) -> str:
    how, said = row.certification, row.cell.published
    size = TO_CERTIFY.get(row.data)
    inputs = "inputs" if size is None else f"{inputs_of(row, size)} inputs"
    theirs = "" if said is None or said.acr is None else f"; ACR in the paper {said.acr:g}"
    return f"row {row.cell.name}: {how.procedure} n={how.n or 'default'} on {inputs} of {row.data}{theirs}"


def _costs(chosen: Plan) -> str:
    found = cost(chosen)
    training = f"training {_hours(found.training)}, " if chosen.trainings else ""
    return f"core-hours at this scale: {training}certifying {_hours(found.certifying)}"


def _hours(hours: float | None) -> str:
    if hours is None:
        return "unknown"
    return f"{float(f'{hours:.2g}'):,g}" if hours >= 0.01 else "under 0.01"
