"""`smoothcert train`: a recipe, data and a seed become a model; several seeds become the members of an ensemble."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say
from smoothcert.core.errors import InputError

MOST_SEEDS = 1000
NO_TEACHER = (
    "without --set objective.teacher=CHECKPOINT labels are the targets; the paper's are the answers of a model "
    "that was trained under Gaussian noise of 0.25"
)

Name = Annotated[str, typer.Argument(help="Name of a recipe; see: smoothcert recipes.")]
Out = Annotated[Path, option("Folder of the training; the same command again resumes it.")]
Data = Annotated[str | None, option("A data set, .npz file or image folder. Default: the recipe's.")]
Seed = Annotated[int | None, option("Weights are a function of the seed, the recipe and the data. Default: 0.")]
Seeds = Annotated[str | None, option("Several members, as in 0-4 or 0,3,7, into OUT/seed0, OUT/seed1, ...")]
Changes = Annotated[
    list[str],
    option(
        "Change a value: lr=0.05, objective.lam=6, optimizer=adamw, noise=uniform, mixed_precision=true, ...",
        "--set",
    ),
]
Accumulate = Annotated[
    int | None, option("Passes that a batch is split into, to save memory; short for --set chunk=batch/passes.")
]
Init = Annotated[Path | None, option("Checkpoint of the same network whose weights are the first ones: fine-tuning.")]
KeepEvery = Annotated[int | None, option("Keep the model after every so many epochs: OUT/epoch-0010.safetensors.")]
Router = Annotated[
    bool,
    option("Train a router, which chooses between the models of --model; take a consistency recipe.", "--router"),
]
Members = Annotated[
    list[Path], option("Of --router: a model for each strength, as in 0.25=net.safetensors; repeat it.", "--model")
]
LabelDraws = Annotated[int, option("Of --router: noisy copies of each input behind its label.", "--label-draws")]
Neighbours = Annotated[
    int, option("Of --router: inputs like it that each label is settled with; 1: it alone.", "--label-neighbours")
]
Jobs = Annotated[int | None, option("Members trained side by side. Default: as many as cores; 1 on a GPU.")]


def train(
    recipe: Name,
    out: Out,
    data: Data = None,
    seed: Seed = None,
    seeds: Seeds = None,
    epochs: Annotated[int | None, option("Instead of the recipe's.")] = None,
    changes: Changes = [],  # noqa: B006
    accumulate: Accumulate = None,
    jobs: Jobs = None,
    init: Init = None,
    keep_every: KeepEvery = None,
    save_every: Annotated[float, option("Seconds between states, besides after every epoch.")] = 120.0,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    pool: Annotated[
        str, option("Where members are trained: processes, or ray, a cluster.", panel=o.RUNNING)
    ] = "processes",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
    router: Router = False,
    model: Members = [],  # noqa: B006
    label_draws: LabelDraws = 16,
    label_neighbours: Neighbours = 10,
) -> None:
    """Train by a recipe. Under torchrun, all processes train one model together."""
    from smoothcert.workflows.choices import PoolChoice
    from smoothcert.workflows.recipes import adapted
    from smoothcert.workflows.seeds import train_seeds
    from smoothcert.workflows.terminal import terminal_observer

    chosen = adapted(recipe, changes, epochs=epochs, accumulate=accumulate)
    one, several = _seeds(seed, seeds)
    if chosen.objective["name"] == "catrs" and chosen.objective.get("teacher") is None:
        say(f"note: {NO_TEACHER}", err=True)
    if router or model:
        _refuse_for_routers(router, several is not None or init is not None or keep_every is not None)
        _train_router(chosen, model, out, data, data_root, one, label_draws, label_neighbours, device, save_every)
        return
    with terminal_observer() as observer:
        trained = train_seeds(
            chosen, out=out, seed=one, seeds=several, data=data, data_root=data_root, device=device, jobs=jobs,
            save_every=save_every, init=init, keep_every=keep_every, observer=observer,
            pool=PoolChoice(pool, None, address, gpus_per_worker),
        )  # fmt: skip
    for member in trained:
        say(f"{'trained' if member.new else 'already trained'}: {member.model}")
    for member in trained[:1]:
        if chosen.objective["name"] == "denoising":
            made = f"--model {member.model} --model CLASSIFIER --out FILE.json"
            say(f"see: smoothcert ensemble make --aggregation denoised {made}")
        else:
            noise = "" if chosen.noise is None else f"--noise {chosen.noise['name']} "
            say(f"see: smoothcert certify --model {member.model} {noise}--data {member.training.data} --out RUN")


def _train_router(
    recipe: Any, models: list[Path], out: Path, data: str | None, data_root: Path | None, seed: int, draws: int,
    neighbours: int, device: str | None, save_every: float,
) -> None:  # fmt: skip
    from smoothcert.workflows.routing import members_of
    from smoothcert.workflows.terminal import terminal_observer
    from smoothcert.workflows.train_router import train_router

    with terminal_observer() as observer:
        found = train_router(
            recipe, members_of(models), out=out, data=data, data_root=data_root, seed=seed, draws=draws, device=device,
            neighbours=neighbours, save_every=save_every, observer=observer,
        )  # fmt: skip
    say(f"{'trained' if found.new else 'already trained'}: {found.model}; {found.sentence}")
    members = " ".join(f"--model {model}" for model in models)
    say(f"see: smoothcert certify --router {found.model} {members} --data {data or recipe.data} --out RUN")


def _refuse_for_routers(router: bool, more: bool) -> None:
    if not router:
        raise InputError("--model goes with --router, which chooses between models; give both, or leave it out")
    if more:
        raise InputError("--seeds, --init and --keep-every do not go with --router; leave them out")


def _seeds(seed: int | None, seeds: str | None) -> tuple[int, list[int] | None]:
    if seeds is None:
        if seed is not None and not -(2**63) <= seed < 2**63:
            raise InputError(f"--seed must lie between -2^63 and 2^63 - 1, got {seed}")
        return seed or 0, None
    if seed is not None:
        raise InputError(f"--seed {seed} and --seeds {seeds} say two things; leave one out")
    return 0, parse_seeds(seeds)


def parse_seeds(text: str) -> list[int]:
    """The value of --seeds."""
    parts = [re.fullmatch("([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip()) for part in text.split(",")]
    ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    wrong = f"--seeds must be different whole numbers, as in 0-4 or 0,3,7, got {text!r}"
    if len(ends) < len(parts) or any(last < first for first, last in ends):
        raise InputError(wrong)
    if sum(last - first + 1 for first, last in ends) > MOST_SEEDS:
        raise InputError(f"--seeds may name at most {MOST_SEEDS} members, got {text!r}")
    numbers = [number for first, last in ends for number in range(first, last + 1)]
    if len(set(numbers)) < len(numbers):
        raise InputError(wrong)
    return numbers
