"""`smoothcert train`: a recipe, data and a seed become a model; several seeds become the members of an ensemble."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.members import Member, Watch, side_by_side
from smoothcert.core.errors import InputError

_MOST = 1000  # members


def train(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe; see: smoothcert recipes.")],
    out: Annotated[Path, typer.Option(help="Folder of the training; the same command again resumes it.")],
    data: Annotated[
        str | None, typer.Option(help="A data set, .npz file or image folder. Default: the recipe's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Weights are a function of the seed, the recipe and the data. Default: 0.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Several members, as in 0-4 or 0,3,7, into OUT/seed0, OUT/seed1, ...")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    changes: Annotated[
        list[str],
        typer.Option("--set", help="Change a value: lr=0.05, objective.lam=6, schedule=cosine, chunk=16, ..."),
    ] = [],  # noqa: B006
    accumulate: Annotated[
        int | None,
        typer.Option(help="Passes that a batch is split into, to save memory; short for --set chunk=batch/passes."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Members trained side by side. Default: as many as cores; 1 on a GPU.")
    ] = None,
    save_every: Annotated[float, typer.Option(help="Seconds between states, besides after every epoch.")] = 120.0,
    data_root: o.DataRoot = None,
    device: o.Device = None,
) -> None:
    """Train by a recipe. Under torchrun, all processes train one model together."""
    from smoothcert.present.figures import training_curves
    from smoothcert.training import Folder, Group, launched
    from smoothcert.training.recipes import find
    from smoothcert.training.recipes.build import change

    chosen = change(find(recipe), [*changes, *([] if epochs is None else [f"epochs={epochs}"])])
    if accumulate is not None:
        chosen = change(chosen, [f"chunk={_chunk(accumulate, chosen.batch_size, changes)}"])
    numbers = _seeds(seed, seeds)
    with launched(o.device(device)) as where:
        members = [
            Member(
                recipe=chosen,
                data=data or chosen.data,
                data_root=data_root,
                seed=number,
                out=out if seeds is None else out / f"seed{number}",
                device=where,
                save_every=save_every,
            )
            for number in numbers
        ]
        parallel = _jobs(jobs, len(members), where)
        first = Group.current().rank == 0
        if parallel > 1:
            trained = side_by_side(members, parallel)
        else:
            with Watch(members, shown=first) as watch:
                trained = [member.train(watch.tell) for member in members]
        if not first:
            return
    for member, new in zip(members, trained, strict=True):
        folder = Folder(member.out)
        if new or not folder.curves.exists():
            training_curves([member.out / "log.jsonl"], folder.curves)
        typer.echo(f"{'trained' if new else 'already trained'}: {folder.model}")
    if len(members) > 1 and (any(trained) or not (out / "curves.png").exists()):
        training_curves([member.out / "log.jsonl" for member in members], out / "curves.png")
    first_model = f"--model {Folder(members[0].out).model}"
    if chosen.objective["name"] == "denoising":
        typer.echo(
            f"see: smoothcert ensemble make --aggregation denoised {first_model} --model CLASSIFIER --out FILE.json"
        )
    else:
        typer.echo(f"see: smoothcert certify {first_model} --data {members[0].data} --out RUN")


def _seeds(seed: int | None, seeds: str | None) -> list[int]:
    if seeds is None:
        if seed is not None and not -(2**63) <= seed < 2**63:
            raise InputError(f"--seed must lie between -2^63 and 2^63 - 1, got {seed}")
        return [seed or 0]
    if seed is not None:
        raise InputError(f"--seed {seed} and --seeds {seeds} say two things; leave one out")
    return several(seeds)


def several(text: str) -> list[int]:
    """The value of --seeds."""
    parts = [re.fullmatch("([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip()) for part in text.split(",")]
    ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    wrong = f"--seeds must be different whole numbers, as in 0-4 or 0,3,7, got {text!r}"
    if len(ends) < len(parts) or any(last < first for first, last in ends):
        raise InputError(wrong)
    if sum(last - first + 1 for first, last in ends) > _MOST:
        raise InputError(f"--seeds may name at most {_MOST} members, got {text!r}")
    numbers = [number for first, last in ends for number in range(first, last + 1)]
    if len(set(numbers)) < len(numbers):
        raise InputError(wrong)
    return numbers


def _chunk(passes: int, batch: int, changes: list[str]) -> int:
    """Inputs per pass for --accumulate."""
    if any(change.startswith("chunk=") for change in changes):
        raise InputError("--accumulate and --set chunk say the same thing; leave one out")
    if not 1 <= passes <= batch:
        raise InputError(f"--accumulate must be at least 1 and at most the {batch} inputs of a batch, got {passes}")
    return -(-batch // passes)


def _jobs(jobs: int | None, members: int, device: str) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    alone = "RANK" in os.environ or device != "cpu"  # a group trains one model, and a GPU is shared badly
    if alone and jobs is None:
        return 1
    if "RANK" in os.environ and jobs != 1:
        raise InputError("--jobs does not go with torchrun, whose processes train one model together; leave it out")
    return min(members, jobs or len(os.sched_getaffinity(0)))
