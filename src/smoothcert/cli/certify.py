"""`smoothcert certify`: a data set, a model and a noise become a run of certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.progress import certifying

if TYPE_CHECKING:
    from smoothcert.datasets import Dataset, Subset
    from smoothcert.models import Checkpoint
    from smoothcert.runs import ModelConfig


def certify(
    model: o.Model,
    data: Annotated[str, typer.Option(help="digits, mnist5k, mnist, cifar10, svhn, an .npz file or an image folder.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command again resumes it.")],
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    norm: o.Norm = None,
    values: o.Values = None,
    grid: o.Grid = "auto",
    procedure: Annotated[
        str,
        typer.Option(
            help="fixed: the largest radius, n draws. sequential: given radii, as few draws as possible. "
            "staged: CertifyAdp. budgeted: the largest radius, draws where they pay."
        ),
    ] = "fixed",
    radius: Annotated[list[float], typer.Option(help="Radius to certify; several for sequential: 0.25 0.5 1.")] = [],  # noqa: B006
    n: Annotated[
        int | None, typer.Option(help="Draws that bound the probability, or the fixed n to match. Default: 100000.")
    ] = None,
    n0: Annotated[int | None, typer.Option(help="Draws that choose the class. Default: 100.")] = None,
    alpha: o.Alpha = 0.001,
    beta: Annotated[
        float | None, typer.Option(help="Power that giving up early may cost (sequential, staged). Default: 0.001.")
    ] = None,
    stages: Annotated[str | None, typer.Option(help="Of staged, as in 100,1000,10000,120000. Default: from n.")] = None,
    price: Annotated[float | None, typer.Option(help="Of draws, for budgeted: see Budgeted.")] = None,
    bound: Annotated[
        str | None, typer.Option(help="Of fixed: clopper-pearson (votes), hoeffding or bernstein (soft scores).")
    ] = None,
    inverse_temperature: Annotated[float | None, typer.Option(help="Of the softmax, for soft bounds.")] = None,
    runner_up: Annotated[
        bool, typer.Option("--runner-up", help="Of fixed: bound the runner-up too; certifies p_A < 1/2.")
    ] = False,
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    start: Annotated[int, typer.Option(help="First input.")] = 0,
    every: Annotated[int, typer.Option(help="Every k-th input; 20 is usual for CIFAR-10.")] = 1,
    limit: Annotated[int | None, typer.Option(help="At most so many inputs.")] = None,
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    workers: o.Workers = None,
    backend: o.Backend = "eager",
    calibration: o.Calibration = None,
    sigma_per_input: Annotated[
        str | None,
        typer.Option(
            help="Choose the strength for each input, from --sigma: bracket (any model), ddrs (gradient ascent) or "
            "grid. Certificates are then of this input's own classifier, unless they go through --memory."
        ),
    ] = None,
    sigma_steps: Annotated[
        int | None, typer.Option(help="Strengths tried per input. Default: 11 (bracket), 400 (ddrs), 64 (grid).")
    ] = None,
    sigma_draws: Annotated[int | None, typer.Option(help="Draws for each of them. Default: 64, 1, 8.")] = None,
    memory: o.MemoryAt = None,
) -> None:
    """Certify inputs of a data set: what no perturbation below a radius can change."""
    from smoothcert import datasets
    from smoothcert.audit.memory import refuse_other_memory
    from smoothcert.cli.procedures import ProcedureOptions
    from smoothcert.engine import MemberCalls, Smoothed
    from smoothcert.models import ensembles
    from smoothcert.runs import Run
    from smoothcert.runs.evaluations import add_evaluations
    from smoothcert.runs.made import command_line
    from smoothcert.workflows.certify import run_config

    chosen = ProcedureOptions(radius, n, n0, alpha, beta, stages, price, bound, inverse_temperature, runner_up).build(
        procedure
    )
    subset = datasets.Subset(start=start, every=every, limit=limit)
    checkpoint = ensembles.load_model(model, o.device(device))
    dataset = datasets.load(data, split, root=data_root)
    earlier = Run.at(out)  # before a memory is made that the run would refuse
    backend, batch_size = o.resumed(earlier, backend, batch_size)
    remembered = o.memory(memory)
    calibrating, named = o.calibration(backend, calibration, data, data_root)
    smoothed = Smoothed(
        checkpoint.model,
        num_classes=checkpoint.architecture.num_classes,
        noise=o.noise(
            noise, sigma, norm, values, checkpoint, grid=grid, eight_bit=dataset.inputs.dtype.name == "uint8"
        ),
        seed=seed,
        batch_size=batch_size,
        workers=workers,
        backend=backend,
        calibration=calibrating,
        search=o.search(sigma_per_input, sigma_steps, sigma_draws, chosen),
        memory=remembered,
        input_range=dataset.input_range,
        input_shape=tuple(checkpoint.architecture.input_shape),
    )
    o.check_shape(dataset.inputs.shape[1:], checkpoint.architecture, data)
    if held_out := checkpoint.details.get("held_out"):
        chosen_inputs = dataset.tensors(subset.indices(len(dataset)))
        ensembles.refuse_overlap(set(held_out), chosen_inputs, f"--data {data}")
    if earlier is not None:
        refuse_other_memory(earlier, remembered)
    if one_sided := _one_sided(dataset, subset):
        typer.echo(f"warning: {one_sided}", err=True)
    about = _about(model, checkpoint, named)
    run = Run.start(
        out, run_config(smoothed, chosen, dataset, subset, about), command=command_line(["smoothcert", *sys.argv[1:]])
    )
    member_calls = MemberCalls()
    certifying(run, smoothed, chosen, dataset, member_calls)
    if member_calls.per_member and isinstance(checkpoint.model, ensembles.Ensemble):
        typer.echo(add_evaluations(out, member_calls.per_member, checkpoint.model.cost))
    typer.echo(f"{len(run.planned)} inputs are certified in {out}; see: smoothcert analyze {out}")
    if sigma_per_input is not None and memory is None:
        typer.echo(
            "warning: each certificate is of its input's own classifier, and claims nothing about neighbours; for a "
            "claim about one classifier give --memory, and another --out",
            err=True,
        )


def _one_sided(dataset: Dataset, subset: Subset) -> str | None:
    """A data set that is ordered by class, cut by --every or --limit, may leave few of its classes."""
    rows = subset.indices(len(dataset))
    here, all_of_them = (len(set(labels.tolist())) for labels in (dataset.labels[rows], dataset.labels))
    if 2 * here > all_of_them or len(rows) < 2 * all_of_them:
        return None
    return (
        f"the {len(rows)} chosen inputs are of {here} of the {all_of_them} classes of {dataset.name}, which is "
        "ordered: another --every may take all"
    )


def _about(model: list[Path], checkpoint: Checkpoint, calibration: str | None) -> ModelConfig:
    """What the run says of its model."""
    from smoothcert.runs import ModelConfig

    return ModelConfig(
        files=tuple(path.name for path in model),
        architecture=checkpoint.architecture.to_json(),
        fingerprint=checkpoint.fingerprint,
        ensemble=checkpoint.details.get("ensemble"),
        calibration=calibration,
    )
