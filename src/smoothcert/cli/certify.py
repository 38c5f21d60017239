"""`smoothcert certify`: a data set, a model and a noise become a run of certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from smoothcert.cli import options as o
from smoothcert.cli.options import PROCEDURE, option
from smoothcert.cli.output import say

Data = Annotated[str, option("{datasets}, an .npz file or an image folder.")]
Out = Annotated[Path, option("Folder of the run; the same command again resumes it.")]
Name = Annotated[
    str,
    option(
        "fixed: the largest radius, n draws. sequential: given radii, as few draws as possible. "
        "staged: CertifyAdp. budgeted: the largest radius, draws where they pay.",
        panel=PROCEDURE,
    ),
]
Radius = Annotated[list[float], option("Radius to certify; several for sequential: 0.25 0.5 1.", panel=PROCEDURE)]
N = Annotated[
    int | None, option("Draws that bound the probability, or fixed n to match. Default: 100000.", panel=PROCEDURE)
]
N0 = Annotated[int | None, option("Draws that choose the class. Default: 100.", panel=PROCEDURE)]
Beta = Annotated[
    float | None, option("Power that giving up early may cost (sequential, staged). Default: 0.001.", panel=PROCEDURE)
]
Stages = Annotated[str | None, option("Of staged, as in 100,1000,10000,120000. Default: from n.", panel=PROCEDURE)]
Price = Annotated[float | None, option("Of draws, for budgeted: see Budgeted.", panel=PROCEDURE)]
BoundName = Annotated[
    str | None, option("Of fixed: clopper-pearson (votes), hoeffding, bernstein (soft scores).", panel=PROCEDURE)
]
Temperature = Annotated[float | None, option("Of the softmax, for soft bounds.", panel=PROCEDURE)]
RunnerUp = Annotated[
    bool, option("Of fixed: bound the runner-up too; certifies p_A < 1/2.", "--runner-up", panel=PROCEDURE)
]
More = Annotated[
    list[str], option("Option of a noise or procedure of yours: noise.NAME=VALUE, procedure.NAME=...", "--set")
]
Start = Annotated[int, option("First input.", panel=o.DATA)]
Every = Annotated[int, option("Every k-th input; 20 is usual for CIFAR-10.", panel=o.DATA)]
PerInput = Annotated[
    str | None,
    option(
        "Choose the strength for each input, from --sigma: bracket (any model), ddrs (gradient ascent) or "
        "grid. Certificates are then of this input's own classifier, unless they go through --memory.",
        panel=o.NOISE,
    ),
]
PerInputSteps = Annotated[
    int | None, option("Strengths tried. Default: 11 (bracket), 400 (ddrs), 64 (grid).", panel=o.NOISE)
]
PerInputDraws = Annotated[int | None, option("Draws for each of them. Default: 64, 1, 8.", panel=o.NOISE)]


def certify(
    model: o.Model,
    data: Data,
    out: Out,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    norm: o.Norm = None,
    values: o.Values = None,
    grid: o.Grid = "auto",
    procedure: Name = "fixed",
    radius: Radius = [],  # noqa: B006
    n: N = None,
    n0: N0 = None,
    alpha: o.Alpha = 0.001,
    beta: Beta = None,
    stages: Stages = None,
    price: Price = None,
    bound: BoundName = None,
    inverse_temperature: Temperature = None,
    runner_up: RunnerUp = False,
    more: More = [],  # noqa: B006
    split: o.Split = "test",
    start: Start = 0,
    every: Every = 1,
    limit: o.Limit = None,
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    workers: o.Workers = None,
    pool: o.PoolName = "threads",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
    backend: o.Backend = "eager",
    calibration: o.Calibration = None,
    sigma_per_input: PerInput = None,
    sigma_steps: PerInputSteps = None,
    sigma_draws: PerInputDraws = None,
    memory: o.MemoryAt = None,
) -> None:
    """Certify inputs of a data set: what no perturbation below a radius can change."""
    from smoothcert.datasets import Subset
    from smoothcert.workflows import certify as workflow
    from smoothcert.workflows.choices import NoiseChoice, PoolChoice, SearchChoice
    from smoothcert.workflows.procedure_choice import ProcedureChoice
    from smoothcert.workflows.terminal import terminal_observer

    own = o.assignments(more, "noise", "procedure")
    how = ProcedureChoice(
        procedure, radius, n, n0, alpha, beta, stages, price, bound, inverse_temperature, runner_up, own["procedure"]
    )
    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        run = workflow.certify(
            model, data, out=out, procedure=how, seed=seed, split=split,
            noise=NoiseChoice(noise, sigma, norm, values, grid, own["noise"]),
            subset=Subset(start=start, every=every, limit=limit),
            search=SearchChoice(sigma_per_input, sigma_steps, sigma_draws), memory=memory, backend=backend,
            calibration=calibration, batch_size=batch_size, device=device, pool=where, data_root=data_root,
            command=["smoothcert", *sys.argv[1:]], observer=observer,
        )  # fmt: skip
    say(f"{run.outcome.sentence}; see: smoothcert analyze {out}")
