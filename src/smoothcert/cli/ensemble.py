"""`smoothcert ensemble`: who is asked first, with which weights, how many members; and the file that says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.present.fitting import FittingTable
    from smoothcert.workflows.ensemble import HoldOut

Members = Annotated[list[Path], option("A member: checkpoint or ensemble file; repeat it.", "--model")]
Data = Annotated[str, option("Hold-out data; inputs that a member was trained on are left out.", panel=o.DATA)]
Start = Annotated[int, option("First hold-out input.", panel=o.DATA)]
Every = Annotated[int, option("Every k-th input: 1, 21, ... leaves 0, 20, ... to certify.", panel=o.DATA)]
Draws = Annotated[int, option("Draws of noise per hold-out input.")]
NewFile = Annotated[Path, option("Ensemble file (.json) to write.")]
Out = Annotated[Path | None, option("Ensemble file (.json) to write.")]
Kind = Annotated[str, option("{aggregations} (denoised: a denoiser, a classifier; mirrored: one).", "--aggregation")]
Method = Annotated[str, option("radius (largest radii), convex or sgd (SWEEN), minimum-variance (EsbRS).")]
At = Annotated[float | None, option("Of radius: certified accuracy at this radius instead of the ACR.")]
WeightDraws = Annotated[
    int | None, option("Draws per hold-out input. Default: 32 (radius), 100 (convex), 10 (minimum-variance).")
]
Steps = Annotated[int | None, option("Of sgd: batches of 64. Default: 4688.")]
Signed = Annotated[bool, option("Of radius with soft-voting: weights may be negative.", "--signed")]
K = Annotated[int | None, option("Of consensus: how many members must agree. Default: 2.")]


def make(
    model: Members,
    out: NewFile,
    aggregation: Kind = "soft-voting",
    weights: Annotated[str | None, option("One per member, as in 0.5,0.3,0.2. Default: equal.")] = None,
    k: K = None,
    threshold: Annotated[float | None, option("Of early-exit: T. Default: 0.999.")] = None,
    a: Annotated[float | None, option("Of early-exit: level of its test. Default: 0.05.")] = None,
) -> None:
    """Write an ensemble of these members, in this order."""
    from smoothcert.workflows import ensemble as workflow

    given = {"weights": o.numbers(weights, "--weights"), "k": k, "threshold": threshold, "a": a}
    options = {key: value for key, value in given.items() if value is not None}
    workflow.make(model, out, aggregation=aggregation, options=options)
    _say_written(out)


def rank(
    model: Members,
    data: Data,
    out: Out = None,
    aggregation: Kind = "consensus",
    k: K = None,
    split: o.Split = "test",
    start: Start = 1,
    every: Every = 20,
    limit: o.Limit = None,
    draws: Draws = 10,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """Order members by their accuracy under noise; with --out, an ensemble that asks the best one first."""
    from smoothcert.workflows import ensemble as workflow
    from smoothcert.workflows.ensemble_tables import ranking_table

    held = hold_out(data, split, start, every, limit, noise, sigma, data_root)
    options = {} if k is None else {"k": k}
    found = workflow.rank(model, held, draws=draws, seed=seed, out=out, aggregation=aggregation, options=options)
    content = {"order": found.order, "accuracy": found.accuracy, "members": [str(path) for path in model]}
    _say(ranking_table(model, found), content, as_json=as_json)
    _say_written(out)


def weights(
    model: Members, data: Data, out: Out = None, method: Method = "radius", at: At = None, signed: Signed = False,
    draws: WeightDraws = None, steps: Steps = None, aggregation: Kind = "softmax-voting", split: o.Split = "test",
    start: Start = 1, every: Every = 20, limit: o.Limit = None, sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian", data_root: o.DataRoot = None, seed: o.Seed = 0, as_json: o.AsJson = False,
) -> None:  # fmt: skip
    """Find weights on hold-out data; with --out, the weighted ensemble."""
    from smoothcert.workflows import ensemble as workflow
    from smoothcert.workflows.ensemble_tables import weights_table

    held = hold_out(data, split, start, every, limit, noise, sigma, data_root)
    found = workflow.weights(
        model, held, method=method, at=at, signed=signed, draws=draws, steps=steps, seed=seed, out=out,
        aggregation=aggregation,
    )  # fmt: skip
    _say(weights_table(model, found), found.to_json(), as_json=as_json)
    for note in found.notes:
        say(f"note: {note}", err=True)
    _say_written(out)


def plan(
    model: Members,
    data: Data,
    sizes: Annotated[str, option("Ensemble sizes to compare.")] = "1,2,3,5,10,20,50",
    split: o.Split = "test",
    start: Start = 1,
    every: Every = 20,
    limit: o.Limit = 100,
    draws: Draws = 128,
    n: Annotated[int, option("Draws of the certification to plan for.")] = 100_000,
    alpha: o.Alpha = 0.001,
    sigma: o.Strength = None,
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """How many members are worth it: the variance they leave, the radius that buys, and the evaluations it costs."""
    from smoothcert.workflows import ensemble as workflow
    from smoothcert.workflows.ensemble_tables import plan_table

    counts = whole_numbers(sizes, "--sizes")
    held = hold_out(data, split, start, every, limit, "gaussian", sigma, data_root)
    found = workflow.plan(model, held, sizes=counts, draws=draws, n=n, alpha=alpha, seed=seed)
    _say(plan_table(found), found.to_json(), as_json=as_json)
    say(f"note: {found.note}", err=True)


def hold_out(
    data: str, split: str, start: int, every: int, limit: int | None, noise: str, sigma: float | None, root: Path | None
) -> HoldOut:
    """Which inputs may settle an ensemble, as the command line says it."""
    from smoothcert.datasets import Subset
    from smoothcert.workflows.choices import NoiseChoice
    from smoothcert.workflows.ensemble import HoldOut

    subset = Subset(start=start, every=every, limit=limit)
    return HoldOut(data, split, subset, NoiseChoice(noise, sigma, grid="off"), root)


def _say_written(out: Path | None) -> None:
    if out is not None:
        say(f"the ensemble is written to {out}; see: smoothcert certify --model {out}", err=True)


def _say(table: FittingTable, content: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(content, indent=None)
    else:
        show(table)


def whole_numbers(text: str, name: str) -> list[int]:
    """The value of an option that takes several whole numbers."""
    numbers = o.numbers(text, name) or []
    if not all(number.is_integer() for number in numbers):
        raise InputError(f"{name} must be whole numbers, as in 1,2,5, got {text!r}")
    return [int(number) for number in numbers]
