"""How the rows of a study are certified: what each run is told, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.datasets import Subset
from smoothcert.engine.pools import Pool
from smoothcert.workflows import ensemble as ensembles
from smoothcert.workflows.certify import certify
from smoothcert.workflows.certify_each import certify_each
from smoothcert.workflows.choices import NoiseChoice, PoolChoice, SearchChoice
from smoothcert.workflows.each import AggregationChoice
from smoothcert.workflows.observer import Observer
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.studies.plan import Member, Pass, Plan, Row, fits, shares
from smoothcert.workflows.studies.study import Certification

HOLD_OUT = 1000  # inputs that settle an order or weights


@dataclass(frozen=True)
class Where:
    """Where a study is done: on which machine, from which files."""

    out: Path
    data_root: Path | None = None
    device: str | None = None
    jobs: int | None = None
    pool: Pool | PoolChoice | None = None

    @property
    def cluster(self) -> Pool | PoolChoice | None:
        """Of trainings: a cluster, else processes of this machine."""
        name = self.pool.name if isinstance(self.pool, PoolChoice) else type(self.pool).__name__.lower()
        return self.pool if name == "ray" else None


def procedure_of(how: Certification) -> ProcedureChoice:
    """How rows that say so are certified."""
    return ProcedureChoice(
        how.procedure, how.radius, how.n, how.n0, how.alpha, how.beta, stages=how.stages, bound=how.bound
    )


def _options(row: Row, where: Where) -> dict[str, Any]:
    """What `certify` and `certify_each` are told."""
    how = row.certification
    return {
        "data": row.data,
        "noise": NoiseChoice(how.noise, row.cell.sigma, values=how.values),
        "procedure": procedure_of(how),
        "subset": Subset(how.start, how.every, how.limit),
        "seed": how.seed,
        "backend": how.backend,
        "device": where.device,
        "pool": where.pool,
        "data_root": where.data_root,
    }


def pass_of(one: Pass, where: Where) -> Callable[[Observer], object]:
    """Certify all classifiers of a pass."""
    folder = where.out / "certified" / one.folder
    files = [member.path(where.out) for member in one.members]
    options = _options(one.row, where)
    if one.alone:
        return lambda observer: certify(_file(files[0]), out=folder, observer=observer, **options)
    sizes = sorted({size if aggregation else 1 for size, aggregation in one.wanted})
    aggregations = list(dict.fromkeys(aggregation for _, aggregation in one.wanted if aggregation))
    return lambda observer: certify_each(
        files, out=folder, sizes=sizes, aggregations=aggregations, observer=observer, **options
    )


def _file(path: Path) -> Path | str:
    """The name of a packaged model is no path."""
    return str(path) if str(path).startswith("zoo:") else path


def alone(row: Row, where: Where) -> Callable[[Observer], object]:
    """Rows that cannot share a pass: an ensemble that is settled by data, a search, a memory, another procedure."""
    how = row.certification
    search = None if how.search is None else SearchChoice(how.search.method, how.search.steps, how.search.draws)

    def run(observer: Observer) -> None:
        for (members, aggregation), folder in zip(row.classifiers, _folders(row, where.out), strict=True):
            model = _settled(row, where) if aggregation else _file(members[0].path(where.out))
            memory = folder.parent / f"{folder.name}.sqlite" if how.memory else None
            if memory is not None:
                memory.parent.mkdir(parents=True, exist_ok=True)
            options = _options(row, where)
            certify(model, out=folder, search=search, memory=memory, observer=observer, **options)

    return run


def _settled(row: Row, where: Where) -> Path:
    """The ensemble file of a row; an order or weights are found on training data that training held out."""
    path = where.out / "ensembles" / f"{row.slug}-{row.digest(row.members)}.json"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    choice = AggregationChoice.parse(row.cell.aggregation)
    members: list[str | Path] = [member.path(where.out) for member in row.members]
    noise = NoiseChoice(row.certification.noise, row.cell.sigma, values=row.certification.values, grid="off")
    held = ensembles.HoldOut(row.data, "train", Subset(limit=HOLD_OUT), noise, where.data_root)
    if row.cell.rank:
        found = ensembles.rank(members, held)
        members = [members[place] for place in found.order]
    if row.cell.weights:
        how = row.cell.weights
        ensembles.weights(members, held, method=how, out=path, aggregation=choice.name, options=choice.options)
    else:
        ensembles.make(members, path, aggregation=choice.name, options=choice.options)
    return path


def _folders(row: Row, out: Path) -> list[Path]:
    name = f"{row.slug}-{row.digest(row.members)}"
    names = [name] if row.cell.aggregation else [f"{name}-seed{member.seed}" for member in row.members]
    return [out / "certified" / one for one in names]


def runs_of(chosen: Plan, out: Path) -> dict[str, list[Path]]:
    """The runs that each row is read from, by its name."""
    found: dict[str, list[Path]] = {}
    passes = chosen.passes()
    for row in chosen.rows:
        if not shares(row):
            found[row.cell.name] = _folders(row, out)
            continue
        found[row.cell.name] = [_run_in(passes, members, kind, row, out) for members, kind in row.classifiers]
    return found


def _run_in(passes: Sequence[Pass], members: tuple[Member, ...], aggregation: str, row: Row, out: Path) -> Path:
    place = next(one for one in passes if fits(one, members, row))
    folder = out / "certified" / place.folder
    if place.alone:
        return folder
    if not aggregation:
        return folder / f"member-{place.members.index(members[0]) + 1}"
    return folder / f"{AggregationChoice.parse(aggregation).label}-{len(members)}"
