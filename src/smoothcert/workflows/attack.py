"""Try to refute the certificates of a run, and see how far robustness reaches beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from smoothcert.attack.adversaries import AttackEffort
from smoothcert.attack.campaign import AttackCampaign, refuse_scopes
from smoothcert.attack.figure import robust_accuracy_curves
from smoothcert.attack.records import Attacked, AttackRun
from smoothcert.attack.table import RobustAccuracy, attack_table, robust_accuracies
from smoothcert.audit.rebuild import refuse_soft
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.engine import Pool
from smoothcert.present.figures.canvas import check_name
from smoothcert.present.fitting import FittingTable
from smoothcert.runs import Record, Run
from smoothcert.workflows.brought import AnyModel, bring
from smoothcert.workflows.choices import PoolChoice, resolve_pool
from smoothcert.workflows.observer import SILENT, Observer, task
from smoothcert.workflows.of_run import run_data
from smoothcert.workflows.sources import DataSource

COLUMNS = 8  # radii by default: 0, then as far as twice the largest certified radius


@dataclass(frozen=True)
class AttackResult:
    """What attacks found at every input, and how many right answers they leave at each radius."""

    inputs: tuple[Attacked, ...]
    rows: tuple[RobustAccuracy, ...]
    alpha: float | None  # of the certificates

    @property
    def certified(self) -> int:
        """Inputs with a certified radius, which no attack may get through."""
        return sum(one.radius > 0 for one in self.inputs)

    @property
    def false(self) -> tuple[Attacked, ...]:
        """Inputs whose certificate was refuted: a perturbation below its radius changes the answer."""
        return tuple(one for one in self.inputs if one.violation is not None)

    @property
    def refuted(self) -> list[str]:
        """What was found against each false certificate, in words."""
        found = [(one, one.violation) for one in self.inputs]
        return [
            f"FALSE CERTIFICATE: input {one.index} is certified as class {one.certified} below l2 radius {one.radius}, "
            f"but {by.adversary} found class {by.answer} at distance {by.distance:.6g} (p-value {by.p_value:.1g})"
            for one, by in found
            if by is not None
        ]

    @property
    def status(self) -> int:
        """0, or 1 if a certificate is false: what a command ends with."""
        return int(bool(self.false))

    @property
    def sentence(self) -> str:
        """The result in words."""
        if not self.false:
            return f"no attack succeeded below the certified radius of {self.certified} certified inputs"
        return (
            f"{len(self.false)} of {self.certified} certificates are false; alpha = {self.alpha} allows for "
            f"{self.certified * (self.alpha or 0):.2g} on average: more is a bug, please report it"
        )

    @property
    def table(self) -> FittingTable:
        """For a terminal."""
        return attack_table(self.rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"inputs": [one.to_json() for one in self.inputs], "rows": [row.to_json() for row in self.rows]}


def attack(
    run: Run | str | Path,
    model: AnyModel,
    *,
    adversaries: Sequence[str] = ("pgd", "ddn"),
    radii: Sequence[float] | None = None,
    steps: int = 20,
    draws: int = 128,
    votes: int = 1_000,
    limit: int | None = None,
    out: str | Path | None = None,
    figure: Path | None = None,
    data: DataSource | None = None,
    data_root: Path | None = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    calibration: Any = None,
    observer: Observer = SILENT,
) -> AttackResult:
    """Attack the smoothed classifier of a run: below a certified radius nothing may succeed.

    What is found goes into the folder `out`, and the same call again goes on with it.

    Args:
        run: the run, or its folder.
        model: what was certified, a module with gradients, or a router and members; another one is refused.
        adversaries: pgd, ddn, autoattack or foolbox:NAME.
        radii: tried beyond what is certified. Default: up to twice the largest certified radius.
        steps: of pgd and ddn.
        draws: of noise behind every gradient.
        votes: draws that decide whether an answer has changed.
        limit: at most so many inputs of the run.
        out: default: the folder `attack` inside the run.
        figure: draw both curves to a .png, .svg or .pdf file.
        data, data_root, device, workers, pool, calibration, observer: as of `certify`.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1, got {limit}")
    if figure is not None:
        check_name(figure)
    opened = run if isinstance(run, Run) else Run.open(Path(run))
    refuse_soft(opened, "attack")
    records = opened.records()[:limit]
    if not records:
        raise InputError(f"{opened.path} has no recorded input to attack; certify first")
    refuse_scopes(records)
    brought = bring(opened, model, device=device, observer=observer)
    dataset = run_data(opened, data, data_root)
    brought.check_shape(dataset.inputs.shape[1:], dataset.name)
    again = partial(
        brought.again,
        workers=workers,
        pool=resolve_pool(pool),
        calibration=brought.calibration(calibration, data, data_root),
        input_range=dataset.input_range,
        input_shape=tuple(dataset.inputs.shape[1:]),
    )
    smoothed = again()
    judge = again(seed=smoothed.seed + 1)
    tried = tuple(_radii(radii, [record.radius for record in records]))
    campaign = AttackCampaign(smoothed, judge, tuple(adversaries), tried, AttackEffort(steps=steps, draws=draws), votes)
    about = campaign.config(opened, [record.index for record in records])
    attacked = AttackRun.start(Path(out or opened.path / "attack"), about)
    found = _attack_missing(attacked, campaign, dataset, records, observer)
    result = AttackResult(tuple(found), robust_accuracies(found, [0.0, *tried]), opened.config.alpha)
    if figure is not None:
        robust_accuracy_curves(result.rows, figure)
    return result


def _radii(given: Sequence[float] | None, certified: Sequence[float]) -> list[float]:
    if given is not None:
        return sorted({r for r in given if r != 0})
    step = 2 * max(*certified, 0.25) / COLUMNS
    nice = next(size for size in (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, step + 1) if size >= step)
    return [round(nice * (i + 1), 6) for i in range(COLUMNS)]


def _attack_missing(
    attacked: Any, campaign: AttackCampaign, dataset: Dataset, records: Sequence[Record], observer: Observer
) -> list[Attacked]:
    """Attack what is not recorded yet."""
    with attacked.writing() as writer:
        done = {one.index for one in attacked.attacked()}
        todo = [record for record in records if record.index not in done]
        with task(observer, "attack", total=len(records), done=len(done)) as under_way:
            broken = 0
            by_index = {record.index: record for record in todo}
            for part in dataset.parts([record.index for record in todo]):
                for one in campaign.attack(dataset.tensors(part), [by_index[index] for index in part]):
                    writer.append(one)
                    broken += one.violation is not None
                    under_way.reach(under_way.done + 1, note=f"{broken} false certificates" if broken else "")
    return attacked.attacked()  # type: ignore[no-any-return]
