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
from smoothcert.workflows.choices import NoiseChoice, PoolChoice, SearchChoice, WeightsChoice
from smoothcert.workflows.each import AggregationChoice
from smoothcert.workflows.observer import Observer
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.routing import RoutedModels
from smoothcert.workflows.studies.plan import Member, Pass, Plan, Row, fits, shares
from smoothcert.workflows.studies.study import Certification

HOLD_OUT = 1000  # inputs that settle an order or weights
SIGNED = "signed"  # weights of logits by the radius, which may be below zero


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


def search_of(row: Row) -> SearchChoice | None:
    """How each input of the row gets its own sigma; None: all have one."""
    how = row.certification.search
    return None if how is None else SearchChoice(how.method, how.steps, how.draws, how.lr, how.span)


def weights_of(row: Row) -> WeightsChoice | None:
    """How each input of the row gets its own weights; None: all have those of the ensemble."""
    how = row.certification.own_weights
    return None if how is None else WeightsChoice(how.method, how.draws, how.copies)


def _options(row: Row, where: Where) -> dict[str, Any]:
    """What `certify` and `certify_each` are told."""
    how = row.certification
    strength = None if row.cell.routes else row.cell.sigma
    return {
        "data": row.data,
        "noise": NoiseChoice(how.noise, strength, values=how.values),
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
    """Rows that cannot share a pass: an ensemble settled by data, a router, a search, a memory, another procedure."""

    def run(observer: Observer) -> None:
        for (members, aggregation), folder in zip(row.classifiers, _folders(row, where.out), strict=True):
            model = _settled(row, members, where) if aggregation else _model(members[0], row.cell.sigma, where.out)
            memory = folder.parent / f"{folder.name}.sqlite" if row.certification.memory else None
            if memory is not None:
                memory.parent.mkdir(parents=True, exist_ok=True)
            certify(
                model, out=folder, search=search_of(row), weights=weights_of(row), memory=memory, observer=observer,
                **_options(row, where),
            )  # fmt: skip

    return run


def _model(member: Member, sigma: float, out: Path) -> Path | str | RoutedModels:
    """One network, or a router with those that it chooses between."""
    if not member.routes:
        return _file(member.path(out))
    return RoutedModels(member.path(out), routed_files(member, out), sigma)


def routed_files(router: Member, out: Path) -> dict[float, list[str | Path]]:
    """By strength, the files of those that a router chooses between."""
    return {sigma: [_file(member.path(out)) for member in some] for sigma, some in router.routes}


def _settled(row: Row, ensemble: Sequence[Member], where: Where) -> Path:
    """The file of an ensemble; an order or weights are found on training data that training held out."""
    path = where.out / "ensembles" / f"{row.slug}-{row.digest(ensemble)}.json"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    choice = AggregationChoice.parse(row.cell.aggregation)
    members: list[str | Path] = [_file(member.path(where.out)) for member in ensemble]
    noise = NoiseChoice(row.certification.noise, row.cell.sigma, values=row.certification.values, grid="off")
    held = ensembles.HoldOut(row.data, "train", Subset(limit=HOLD_OUT), noise, where.data_root)
    if row.cell.rank:
        found = ensembles.rank(members, held)
        members = [members[place] for place in found.order]
    if how := row.cell.weights:
        method, signed = ("radius", True) if how == SIGNED else (how, False)
        ensembles.weights(
            members, held, method=method, signed=signed, out=path, aggregation=choice.name, options=choice.options
        )
    else:
        ensembles.make(members, path, aggregation=choice.name, options=choice.options)
    return path


def _folders(row: Row, out: Path) -> list[Path]:
    if row.cell.aggregation:
        names = [f"{row.slug}-{row.digest(members)}" for members, _ in row.classifiers]
    else:
        names = [f"{row.slug}-{row.digest(row.members)}-seed{member.seed}" for member in row.members]
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
