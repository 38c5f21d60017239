"""`smoothcert certify`: a data set, a model and a noise become a run of certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from smoothcert.cli import options as o
from smoothcert.cli import procedure_options as p
from smoothcert.cli import router_options as r
from smoothcert.cli.options import option
from smoothcert.cli.output import say
from smoothcert.core.errors import InputError

Data = Annotated[
    str | None, option("{datasets}; an .npz file, an image folder or a table (.csv, .parquet).", panel=o.DATA)
]
Out = Annotated[Path, option("Folder of the run; the same command again resumes it.")]
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
    int | None, option("Strengths tried. Default: 11 (bracket), 400 (ddrs), 200 (grid, up to 1).", panel=o.NOISE)
]
PerInputDraws = Annotated[int | None, option("Draws for each of them. Default: 64, 1, 1.", panel=o.NOISE)]
PerInputRate = Annotated[float | None, option("Length of a step of ddrs. Default: 0.0001.", panel=o.NOISE)]
PerInputSpan = Annotated[
    float | None,
    option("Stay within --sigma over and times this. Default: 4; of grid none, it has (0, 1].", panel=o.NOISE),
]

Weights = Annotated[
    str | None,
    option(
        "Weigh the members of a softmax-voting ensemble anew for each input: variance (EsbRS, least variance of "
        "margins) or ratio (mean over deviation). Scope as of --sigma-per-input.",
        "--weights-per-input",
        panel=o.NOISE,
    ),
]
WeightsDraws = Annotated[int | None, option("Draws that choose the weights. Default: 10, 100.", panel=o.NOISE)]
WeightsCopies = Annotated[int | None, option("variance: perturbed copies per member. Default: 10.", panel=o.NOISE)]
WeightsShare = Annotated[float | None, option("variance: share of parameters perturbed. Default: 0.3.", panel=o.NOISE)]
WeightsSpread = Annotated[float | None, option("variance: size of perturbations. Default: 0.01.", panel=o.NOISE)]
Each = Annotated[
    bool,
    option(
        "Every member, and every --aggregation of the first 2, 3, ... members, by one pass: a run each, in OUT.",
        "--each",
    ),
]
Aggregations = Annotated[
    list[str],
    option(
        "Of --each: {aggregations}; with options as in consensus:k=3. Default: the ensemble's own.", "--aggregation"
    ),
]


def certify(
    model: o.Model, out: Out, data: Data = None, input_: o.Inputs = [], sigma: o.Strength = None,  # noqa: B006
    noise: o.NoiseName = "gaussian", norm: o.Norm = None, values: o.Values = None, grid: o.Grid = "auto",
    procedure: p.Name = "fixed", radius: p.Radius = [], n: p.N = None, n0: p.N0 = None, alpha: o.Alpha = 0.001,  # noqa: B006
    beta: p.Beta = None, stages: p.Stages = None, price: p.Price = None, bound: p.BoundName = None,
    inverse_temperature: p.Temperature = None, runner_up: p.RunnerUp = False, more: More = [],  # noqa: B006
    split: o.Split = "test", start: Start = 0, every: Every = 1, limit: o.Limit = None,
    data_root: o.DataRoot = None, resize: o.Resize = None, crop: o.Crop = None, label_column: o.LabelColumn = None,
    class_names: o.ClassNames = None, seed: o.Seed = 0, batch_size: o.BatchSize = None, device: o.Device = None,
    workers: o.Workers = None, pool: o.PoolName = "threads", address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None, backend: o.Backend = "eager", calibration: o.Calibration = None,
    sigma_per_input: PerInput = None, sigma_steps: PerInputSteps = None, sigma_draws: PerInputDraws = None,
    sigma_lr: PerInputRate = None, sigma_span: PerInputSpan = None, weights: Weights = None,
    weights_draws: WeightsDraws = None, weights_copies: WeightsCopies = None, weights_share: WeightsShare = None,
    weights_spread: WeightsSpread = None, memory: o.MemoryAt = None, router: r.Model = None,
    router_sigma: r.Strength = None, router_share: r.Share = 0.5, each: Each = False,
    aggregation: Aggregations = [],  # noqa: B006
) -> None:  # fmt: skip
    """Certify inputs of a data set: what no perturbation below a radius can change."""
    from smoothcert.datasets import Subset
    from smoothcert.workflows import certify as workflow
    from smoothcert.workflows.certify_each import certify_each
    from smoothcert.workflows.choices import NoiseChoice, PoolChoice, SearchChoice, WeightsChoice
    from smoothcert.workflows.procedure_choice import ProcedureChoice
    from smoothcert.workflows.routing import models_of
    from smoothcert.workflows.terminal import terminal_observer

    source = o.one_of(data, input_)
    if source is None:
        raise InputError("say what to certify: --data with a data set, file or folder, or --input with images")
    own = o.assignments(more, "noise", "procedure")
    how = ProcedureChoice(
        procedure, radius, n, n0, alpha, beta, stages, price, bound, inverse_temperature, runner_up, own["procedure"]
    )
    shared: dict[str, Any] = {
        "out": out, "procedure": how, "seed": seed, "split": split, "backend": backend, "calibration": calibration,
        "noise": NoiseChoice(noise, sigma, norm, values, grid, own["noise"]),
        "subset": Subset(start=start, every=every, limit=limit), "batch_size": batch_size, "device": device,
        "pool": PoolChoice(pool, workers, address, gpus_per_worker), "data_root": data_root,
        "read": o.reading(resize, crop, label_column, class_names), "command": ["smoothcert", *sys.argv[1:]],
    }  # fmt: skip
    if aggregation and not each:
        raise InputError("--aggregation goes with --each; for one ensemble: smoothcert ensemble make")
    if each and any(given is not None for given in (sigma_per_input, weights, memory, router)):
        raise InputError("--each does not go with --sigma-per-input, --weights-per-input, --memory or --router")
    with terminal_observer() as observer:
        if each:
            runs = certify_each(model, source, aggregations=aggregation, observer=observer, **shared)
            say(f"{len(runs)} classifiers certified; see: smoothcert analyze {out}")
            return
        search = SearchChoice(sigma_per_input, sigma_steps, sigma_draws, sigma_lr, sigma_span)
        weighing = WeightsChoice(weights, weights_draws, weights_copies, weights_share, weights_spread)
        models = models_of(model, router, strength=router_sigma, share=router_share)
        run = workflow.certify(
            models, source, search=search, weights=weighing, memory=memory, observer=observer, **shared
        )
    if input_:
        say(f"{run.certificates()}")
    say(f"{run.outcome.sentence}; see: smoothcert analyze {out}")
