"""Figures that need more than results: members under noise, laws of procedures, images, snapshots of trainings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothcert.analysis import read
from smoothcert.analysis.model_fit import MemberLogits
from smoothcert.core.errors import InputError
from smoothcert.datasets import Subset
from smoothcert.models.ensembles.sampling import clean_logits, noisy_logits
from smoothcert.noise import Gaussian, Noise
from smoothcert.noise.base import noise_kind
from smoothcert.present.figures import MEMBER_FIGURES, Planned, expected_radius_figure, save, stages_figure
from smoothcert.present.figures.canvas import check_name
from smoothcert.present.figures.noise_images import NoisyImage, noise_images_figure
from smoothcert.present.figures.progress import Snapshot, progress_figure
from smoothcert.present.figures.training import read_training_log
from smoothcert.procedures import Fixed, Staged
from smoothcert.runs import Record, Run
from smoothcert.workflows.certify import certify
from smoothcert.workflows.choices import NoiseChoice
from smoothcert.workflows.ensemble import HoldOut, open_held_out
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.of_run import run_data
from smoothcert.workflows.report_examples import under_noise
from smoothcert.workflows.sources import DataSource


def members(
    kind: str,
    models: Sequence[str | Path],
    held: HoldOut,
    out: str | Path,
    *,
    planned: Planned | None = None,
    draws: int = 128,
    seed: int = 0,
) -> Path:
    """Draw a figure of `MEMBER_FIGURES` from what these models say of hold-out inputs, with and without noise."""
    figure = MEMBER_FIGURES.find(kind)
    check_name(out)
    planned = planned or Planned()
    if draws < 2:
        raise InputError(f"--draws must be at least 2 for a variance, got {draws}")
    opened = open_held_out(models, held)
    logits = MemberLogits(
        noisy=noisy_logits(opened.models, opened.x, opened.noise, draws, seed),
        clean=clean_logits(opened.models, opened.x),
        labels=opened.y.numpy(),
        names=tuple(str(row) for row in opened.rows),
        sigma=opened.noise.strength,
    )
    return save(figure(logits, planned), out)


def radius(out: str | Path, *, p: Sequence[float] | None = None, sigma: float = 0.25, alpha: float = 0.001) -> Path:
    """Draw the expected radius of `Fixed` over its draws, for true probabilities p."""
    check_name(out)
    Gaussian(sigma=sigma), Fixed(alpha=alpha)  # what cannot be is refused by its own sentence
    given = {} if p is None else {"p": p}
    return save(expected_radius_figure(**given, sigma=sigma, alpha=alpha), out)


def stages(
    out: str | Path,
    *,
    radius: float,
    sigma: float,
    stages: Sequence[int],
    alphas: Sequence[float],
    betas: Sequence[float],
) -> Path:
    """Draw how the first stage of `Staged` ends by the true p_A, for each pair of alpha and beta."""
    check_name(out)
    if len(alphas) != len(betas) and 1 not in (len(alphas), len(betas)):
        raise InputError(f"--alpha and --beta must be as many, or one of them one, got {len(alphas)} and {len(betas)}")
    many = max(len(alphas), len(betas))
    pairs = zip([*alphas] * (many // len(alphas)), [*betas] * (many // len(betas)), strict=True)
    procedures = [
        (f"alpha = {alpha:g}, beta = {beta:g}", Staged(radius=radius, stages=tuple(stages), alpha=alpha, beta=beta))
        for alpha, beta in pairs
    ]
    return save(stages_figure(Gaussian(sigma=sigma), procedures), out)


def noise_images(
    run: str | Path, out: str | Path, *, data: DataSource | None = None, data_root: Path | None = None, rows: int = 3
) -> Path:
    """Draw the inputs of a run whose own noise is the farthest from the first one, weaker and stronger."""
    check_name(out)
    if rows < 1:
        raise InputError(f"--rows must be at least 1, got {rows}")
    opened = Run.open(Path(run))
    config = opened.config
    kind = noise_kind(config.noise)
    if config.sigma_search is None or kind is None:
        raise InputError(f"{run} has the same noise for all inputs; give a run of certify --sigma-per-input")
    dataset = run_data(opened, data, data_root)
    if dataset.input_range is None:
        raise InputError(f"the data of {run} are no 8-bit images, so there is nothing to show")
    first = Noise.from_description(config.noise)
    found: list[tuple[float, Record, Noise]] = []
    for record in opened.records():
        assert record.certificate is not None
        own = Noise.from_description(record.certificate.noise)
        found.append((own.strength / first.strength, record, own))
    found.sort(key=lambda one: (one[0], one[1].index))

    def shown(record: Record, own: Noise) -> NoisyImage:
        image = np.asarray(dataset.inputs[record.index])
        drawn = [under_noise(image, noise, seed=record.index) for noise in (first, own)]
        return NoisyImage(dataset.input_name(record.index), image, drawn[0], drawn[1], first.strength, own.strength)

    weaker = [shown(record, own) for ratio, record, own in found[:rows] if ratio < 1]
    stronger = [shown(record, own) for ratio, record, own in reversed(found[-rows:]) if ratio > 1]
    return save(noise_images_figure(weaker, stronger), out)


def progress(
    trainings: Sequence[str | Path],
    data: DataSource,
    out: str | Path,
    *,
    runs: str | Path,
    subset: Subset | None = None,
    noise: Noise | NoiseChoice | None = None,
    n: int = 1_000,
    alpha: float = 0.001,
    backend: str = "eager",
    data_root: Path | None = None,
    observer: Observer = SILENT,
) -> Path:
    """Certify every model that trainings kept (`train --keep-every`) into `runs`, and draw ACR over training time.

    The same call again goes on with its runs.
    """
    check_name(out)
    kept = {name: _kept(folder) for name, folder in _named([Path(training) for training in trainings]).items()}
    found: dict[str, list[Snapshot]] = {}
    for name, models in kept.items():
        for epoch, (seconds, model) in models.items():
            done = certify(
                model, data, noise=noise or NoiseChoice(), procedure=Fixed(n=n, alpha=alpha), subset=subset,
                out=Path(runs) / name / f"epoch-{epoch:04d}", backend=backend, data_root=data_root, observer=observer,
            )  # fmt: skip
            found.setdefault(name, []).append(Snapshot(seconds, read(done.path)))
    return save(progress_figure(found), out)


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by as much of the end of their path as tells them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(one[-depth:]).lstrip("/") for one in parts]
        if len(set(names)) == len(names):
            return dict(zip(names, folders, strict=True))
    raise InputError("a training was given twice; give each folder once")


def _kept(folder: Path) -> dict[int, tuple[float, Path]]:
    """By epoch how long training had taken and the model that was kept; the last one, too."""
    log = read_training_log(folder / "log.jsonl")
    taken = np.cumsum([float(epoch.get("seconds", 0.0)) for epoch in log])
    models = {int(epoch["number"]): folder / f"epoch-{int(epoch['number']):04d}.safetensors" for epoch in log}
    if (last := folder / "model.safetensors").exists():
        models[int(log[-1]["number"])] = last
    there = {
        number: (float(seconds), path)
        for (number, path), seconds in zip(models.items(), taken, strict=True)
        if path.exists()
    }
    if not there:
        raise InputError(f"{folder} keeps no model; train with --keep-every 5, or until it is done")
    return there
