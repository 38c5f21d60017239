"""Do a study: train, settle ensembles, certify, tabulate; whatever was done before is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from smoothcert.core.described import plain
from smoothcert.core.errors import InputError
from smoothcert.core.files import lock, write_whole
from smoothcert.engine.pools import Pool
from smoothcert.runs import Run
from smoothcert.training import Folder
from smoothcert.training.recipes import Recipe
from smoothcert.workflows.choices import PoolChoice
from smoothcert.workflows.observer import LOG, SILENT, LogFile, Observer, Observers, Task, task
from smoothcert.workflows.route_labels import NEIGHBOURS
from smoothcert.workflows.seeds import train_seeds
from smoothcert.workflows.sources import open_data, using_out
from smoothcert.workflows.studies.certifying import Where, alone, pass_of, routed_files, runs_of
from smoothcert.workflows.studies.cost import certifying_seconds, training_hours
from smoothcert.workflows.studies.given import take_trained
from smoothcert.workflows.studies.plan import Member, Plan, Row, plan, shares
from smoothcert.workflows.studies.study import Study, load_study
from smoothcert.workflows.studies.sweep import swept
from smoothcert.workflows.studies.table import Table
from smoothcert.workflows.studies.tabulate import tabulate
from smoothcert.workflows.train_router import train_router


@dataclass(frozen=True)
class Step:
    """A part of a study, about so many seconds of one core long."""

    name: str
    seconds: float
    run: Callable[[Observer], object]


def study(
    source: str | Path | Study,
    *,
    out: str | Path,
    scale: str | None = None,
    sweeps: Sequence[str] = (),
    data_root: Path | None = None,
    device: str | None = None,
    jobs: int | None = None,
    pool: Pool | PoolChoice | None = None,
    trained: Sequence[str | Path] = (),
    observer: Observer = SILENT,
) -> Table:
    """Train, certify and tabulate the rows of a study into the folder `out`; the same call again goes on.

    Trainings and runs are normal ones, below `out`/trained and `out`/certified: each resumes where it was killed, and
    `smoothcert verify` takes the runs. The table is in `out`/table.md and table.json, and is what is returned.

    Args:
        source: the name of a study, a TOML file, or a study.
        out: folder of this study at this scale; another one in it is refused.
        scale: a name of the study's scales. Default: its first.
        sweeps: values of recipes that every row is done with, as `objective.lam=1,2,4`: an ablation.
        data_root: where the files of named data sets lie.
        device: default: the best there is.
        jobs: trainings side by side. Default: as many as cores; 1 on a GPU.
        pool: where certificates are drawn; a `Ray` cluster also trains.
        trained: checkpoints, and folders with trainings: networks with the recipe, seed and data of one of the study
            are taken from there instead of being trained.
        observer: hears how far all of it is. It also goes into the file progress.log of the folder.
    """
    chosen = plan(swept(source if isinstance(source, Study) else load_study(source), sweeps), scale)
    out = Path(out)
    where = Where(out, data_root, device, jobs, pool)
    with using_out(out):
        out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as file:
        lock(file, out, busy=f"{out} is being worked on by another process; wait for it or stop it")
        _claim(out, chosen)
        for taken in take_trained(chosen, trained, out, data_root):
            observer.message(f"trained before: {taken}")
        steps = _steps(chosen, where)
        total = round(sum(step.seconds for step in steps)) + 1
        with task(Observers(observer, LogFile(out / LOG)), "study", total=total) as under_way:
            done = 0.0
            for number, step in enumerate(steps, start=1):
                under_way.reach(round(done), note=f"step {number} of {len(steps)}, {step.name}, starting")
                step.run(_Inside(under_way, done, step, f"step {number} of {len(steps)}"))
                done += step.seconds
                under_way.reach(round(done), note=f"{number} of {len(steps)} steps done")
            table = tabulate(chosen, out, runs_of(chosen, out))
            write_whole(out / "table.json", json.dumps(table.to_json(), indent=2).encode())
            write_whole(out / "table.md", table.markdown().encode())
    return table


def _claim(out: Path, chosen: Plan) -> None:
    """A folder is of one study at one scale; its numbers may be corrected, what is done may not change."""
    about: dict[str, Any] = {"study": chosen.study.name, "scale": chosen.scale}
    file = out / "study.json"
    if not file.exists():
        strange = [one.name for one in out.iterdir() if one.name not in (".lock", LOG)]
        if strange:
            raise InputError(f"--out {out} is no folder of a study (there is {strange[0]} in it); give another one")
        write_whole(file, json.dumps(about | {"file": plain(chosen.study)}, indent=2).encode())
        return
    try:
        found = json.loads(file.read_text())
        before = {key: found[key] for key in about}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{file} was damaged; give another --out") from None
    if before != about:
        raise InputError(
            f"--out {out} holds the study {before['study']} at the scale {before['scale']}; give another one for "
            f"{about['study']} at the scale {about['scale']}"
        )


class _Inside(Observer):
    """Hears how a step goes, and says it of the whole study. Several trainings side by side are one step."""

    def __init__(self, whole: Task, done: float, step: Step, count: str) -> None:
        self._whole, self._done, self._step, self._count = whole, done, step, count
        self._shares: dict[str, float] = {}

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """A part of the step."""
        self._shares[task] = done / total if total else 0.0
        self._say("")

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """Told."""
        self._shares[task] = min(1.0, done / total) if total else 0.0
        self._say(note)

    def finished(self, task: str, *, note: str) -> None:
        """Told."""
        self._shares[task] = 1.0

    def message(self, text: str) -> None:
        """Not told: what an ensemble cost stands in the table."""

    def warned(self, text: str) -> None:
        """Told, with the row it is about."""
        self._whole.observer.warned(f"{self._step.name}: {text}")

    def _say(self, note: str) -> None:
        share = sum(self._shares.values()) / len(self._shares)
        words = ", ".join(filter(None, [self._count, self._step.name, note]))
        self._whole.reach(max(self._whole.done, round(self._done + share * self._step.seconds)), note=words)


def _steps(chosen: Plan, where: Where) -> list[Step]:
    steps = [*_trainings(chosen, where), *_routers(chosen, where)]
    size = len(open_data(_data(chosen), "test", root=where.data_root, called="the data of the study"))
    runs = runs_of(chosen, where.out)
    for one in chosen.passes():
        paths = [path for row in chosen.rows for path in runs[row.cell.name] if one.folder in path.parts]
        if not all(map(_complete, paths)):
            steps.append(_certifying(one.members, one.row, pass_of(one, where), size))
    for row in chosen.rows:
        if not shares(row) and not all(map(_complete, runs[row.cell.name])):
            steps.append(_certifying(row.members, row, alone(row, where), size))
    return steps


def _trainings(chosen: Plan, where: Where) -> list[Step]:
    steps = []
    for folder, (recipe, seeds) in chosen.trainings.items():
        path = where.out / "trained" / folder
        left = [seed for seed in seeds if not Folder(path / f"seed{seed}").model.exists()]
        if not left:
            continue
        hours = training_hours(recipe, _images(chosen, where))
        # One that goes on with a trained model goes on with that of its own seed.
        for some in [seeds] if recipe.tunes is None else [[seed] for seed in left]:
            start = chosen.start_of(f"{folder}/seed{some[0]}")
            init = None if start is None else start.path(where.out)
            run = partial(_train, recipe, some, path, init, _data(chosen), where)
            seconds = 60.0 if hours is None else 3600 * hours
            steps.append(Step(f"train {folder}", seconds * len({*some} & {*left}), run))
    return steps


def _routers(chosen: Plan, where: Where) -> list[Step]:
    steps = []
    for router in chosen.routers:
        path = router.path(where.out).parent
        if Folder(path).model.exists() or router.recipe is None:
            continue
        hours = training_hours(router.recipe, _images(chosen, where))

        def train(observer: Observer, router: Member = router, path: Path = path) -> object:
            assert router.recipe is not None
            return train_router(
                router.recipe, routed_files(router, where.out), out=path, data=_data(chosen), seed=router.seed,
                neighbours=NEIGHBOURS if router.neighbours is None else router.neighbours,
                data_root=where.data_root, device=where.device, observer=observer,
            )  # fmt: skip

        steps.append(Step(f"train {router.folder}", 60.0 if hours is None else 3600 * hours, train))
    return steps


def _images(chosen: Plan, where: Where) -> int:
    return len(open_data(_data(chosen), "train", root=where.data_root, called="the data of the study"))


def _data(chosen: Plan) -> str:
    return chosen.rows[0].data


def _complete(path: Path) -> bool:
    run = Run.at(path)
    return run is not None and len(run.records()) == len(run.planned)


def _certifying(members: Sequence[Member], row: Row, run: Callable[[Observer], object], size: int) -> Step:
    return Step(f"certify {row.cell.name}", certifying_seconds(members, row, size), run)


def _train(
    recipe: Recipe, seeds: list[int], path: Path, init: Path | None, data: str, where: Where, observer: Observer
) -> None:
    train_seeds(
        recipe, out=path, seeds=seeds, data=data, data_root=where.data_root, device=where.device, jobs=where.jobs,
        init=init, pool=where.cluster, observer=observer,
    )  # fmt: skip
