"""`smoothcert ensemble`: who is asked first, with which weights, how many members; and the file that says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.models import Checkpoint
    from smoothcert.noise import Noise

Members = Annotated[list[Path], typer.Option("--model", help="A member: checkpoint or ensemble file; repeat it.")]
Data = Annotated[str, typer.Option("--data", help="Hold-out data; inputs that a member was trained on are left out.")]
Split = Annotated[str, typer.Option("--split", help="test or train.")]
Start = Annotated[int, typer.Option("--start", help="First hold-out input.")]
Every = Annotated[int, typer.Option("--every", help="Every k-th input: 1, 21, ... leaves 0, 20, ... to certify.")]
Limit = Annotated[int | None, typer.Option("--limit", help="At most so many inputs.")]
Draws = Annotated[int, typer.Option("--draws", help="Draws of noise per hold-out input.")]
Out = Annotated[Path | None, typer.Option("--out", help="Ensemble file (.json) to write.")]
Kind = Annotated[
    str,
    typer.Option(
        "--aggregation",
        help="soft-voting, softmax-voting, hard-voting, consensus, early-exit, max-margin, or denoised (a denoiser, "
        "then a classifier).",
    ),
]
K = Annotated[int | None, typer.Option("--k", help="Of consensus: how many members must agree. Default: 2.")]


@dataclass(frozen=True)
class _HeldOut:
    """Members, and the inputs that none of them was trained on."""

    members: list[Checkpoint]
    x: Tensor
    y: Tensor
    noise: Noise
    about: dict[str, Any]

    @property
    def models(self) -> list[Any]:
        return [member.model for member in self.members]


def make(
    model: Members,
    out: Annotated[Path, typer.Option("--out", help="Ensemble file (.json) to write.")],
    aggregation: Kind = "soft-voting",
    weights: Annotated[str | None, typer.Option(help="One per member, as in 0.5,0.3,0.2. Default: equal.")] = None,
    k: K = None,
    threshold: Annotated[float | None, typer.Option(help="Of early-exit: T. Default: 0.999.")] = None,
    a: Annotated[float | None, typer.Option(help="Of early-exit: level of its test. Default: 0.05.")] = None,
) -> None:
    """Write an ensemble of these members, in this order."""
    given = {
        "weights": None if weights is None else o.numbers(weights, "--weights"),
        "k": k,
        "threshold": threshold,
        "a": a,
    }
    _write(out, aggregation, model, {key: value for key, value in given.items() if value is not None}, {})


def rank(
    model: Members,
    data: Data,
    out: Out = None,
    aggregation: Kind = "consensus",
    k: K = None,
    split: Split = "test",
    start: Start = 1,
    every: Every = 20,
    limit: Limit = None,
    draws: Draws = 10,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """Order members by their accuracy under noise; with --out, an ensemble that asks the best one first."""
    from smoothcert.models import ensembles

    held = _held_out(model, data, data_root, split, start, every, limit, noise, sigma)
    found = ensembles.rank(held.models, held.x, held.y, noise=held.noise, draws=draws, seed=seed)
    table = Table("rank", "member", "accuracy under noise")
    for place, index in enumerate(found.order, start=1):
        table.add_row(str(place), str(model[index]), f"{found.accuracy[index]:.4f}")
    content = {"order": found.order, "accuracy": found.accuracy}
    _say(table, {**content, "members": [str(path) for path in model]}, as_json=as_json)
    if out is not None:
        details = held.about | {"ranking": {key: list(value) for key, value in content.items()}, "seed": seed}
        _write(out, aggregation, [model[index] for index in found.order], {} if k is None else {"k": k}, details)


def weights(
    model: Members,
    data: Data,
    out: Out = None,
    method: Annotated[str, typer.Option(help="convex or sgd (SWEEN), or minimum-variance (EsbRS).")] = "convex",
    aggregation: Kind = "softmax-voting",
    split: Split = "test",
    start: Start = 1,
    every: Every = 20,
    limit: Limit = None,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """Find weights on hold-out data; with --out, the weighted ensemble."""
    from smoothcert.models import ensembles

    if method not in ("convex", "sgd", "minimum-variance"):
        raise InputError(f"--method must be convex, sgd or minimum-variance, got {method!r}")
    held = _held_out(model, data, data_root, split, start, every, limit, noise, sigma)
    found = (
        ensembles.minimum_variance_weights(held.models, held.x, noise=held.noise, seed=seed)
        if method == "minimum-variance"
        else ensembles.sween_weights(
            held.models, held.x, held.y, noise=held.noise, method="sgd" if method == "sgd" else "convex", seed=seed
        )
    )
    table = Table("member", "weight", caption=f"objective {found.objective:.6g}, at most {found.gap:.1e} to gain")
    for path, weight in zip(model, found.weights, strict=True):
        table.add_row(str(path), f"{weight:.4f}")
    _say(table, found.to_json(), as_json=as_json)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    if out is not None:
        details = held.about | {"found": found.to_json(), "seed": seed}
        _write(out, aggregation, model, {"weights": list(found.weights)}, details)


def plan(
    model: Members,
    data: Data,
    sizes: Annotated[str, typer.Option(help="Ensemble sizes to compare.")] = "1,2,3,5,10,20,50",
    split: Split = "test",
    start: Start = 1,
    every: Every = 20,
    limit: Limit = 100,
    draws: Draws = 128,
    n: Annotated[int, typer.Option(help="Draws of the certification to plan for.")] = 100_000,
    alpha: o.Alpha = 0.001,
    sigma: o.Strength = None,
    data_root: o.DataRoot = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """How many members are worth it: the variance they leave, the radius that buys, and the evaluations it costs."""
    import dataclasses

    from smoothcert.analysis import variance
    from smoothcert.models.ensembles.sampling import noisy_logits

    counts = _whole(sizes)
    if draws < 2:
        raise InputError(f"--draws must be at least 2 for a variance, got {draws}")
    held = _held_out(model, data, data_root, split, start, every, limit, "gaussian", sigma)
    logits = noisy_logits(held.models, held.x, held.noise, draws, seed)
    rows = variance.plan(logits, held.y.numpy(), counts, sigma=held.noise.strength, n=n, alpha=alpha)
    model_ = variance.components(logits)
    columns = ("members", "variance left", "measured", "p_A", "radius", "accuracy", "evaluations", "with 2-consensus")
    table = Table(*columns, caption=f"zeta_p {model_.zeta_p:.3f}: more members cannot leave less of the variance")
    for row in rows:
        measured = ["-" if value is None else f"{value:.3f}" for value in (row.measured, row.accuracy)]
        table.add_row(
            str(row.size), f"{row.predicted:.3f}", measured[0], f"{row.p:.4f}", f"{row.radius:.4f}", measured[1],
            str(row.size), f"{row.consensus:.2f}",
        )  # fmt: skip
    content: dict[str, Any] = {"zeta_p": model_.zeta_p, "sizes": [dataclasses.asdict(row) for row in rows]}
    if len(model) > 1:
        top, most = variance.mixing(logits)
        content["mixing_helps"], content["shared"] = float((top > most).mean()), float(most.mean() / top.mean())
    _say(table, content, as_json=as_json)
    if len(model) > 1:
        sentence = (
            f"two of these members share up to {content['shared']:.0%} of the variance of one: the less they do, "
        )
        typer.echo(f"note: {sentence}the more they bring together; compare kinds of members by it", err=True)
    else:
        typer.echo("note: with one member nothing is known of how members differ; give several", err=True)


def _held_out(
    paths: list[Path],
    data: str,
    root: Path | None,
    split: str,
    start: int,
    every: int,
    limit: int | None,
    noise: str,
    strength: float | None,
) -> _HeldOut:
    """Load members and data; what a member was trained on is no hold-out data, by content."""
    import torch

    from smoothcert import datasets
    from smoothcert.core.randomness import input_id
    from smoothcert.models import ensembles

    members = [ensembles.load_model(path) for path in paths]
    dataset = datasets.load(data, split, root=root)
    for member in members:
        o.check_shape(dataset.inputs.shape[1:], member.architecture, data)
        if strength is None and member.details.get("noise") != members[0].details.get("noise"):
            raise InputError("members were trained under different noise; give --sigma, the one to certify with")
    # Without a grid: nothing is certified here.
    chosen = o.noise(noise, strength, None, None, members[0], grid="off", eight_bit=False)
    trained = _trained(members, dataset)
    subset = datasets.Subset(start=start, every=every, limit=limit)
    free = [row for row in range(len(dataset)) if row not in trained]
    if not free:
        raise InputError(f"--data {data} ({split}) is what members were trained on; hold out others, or --split test")
    seen = {input_id(x) for x in dataset.tensors(sorted(trained))}
    rows = [free[index] for index in subset.indices(len(free))]
    ids = {row: input_id(x) for row, x in zip(rows, dataset.tensors(rows), strict=True)}
    rows = [row for row in rows if ids[row] not in seen]
    if not rows:
        raise InputError(f"all inputs of --data {data} ({split}) that were chosen are also among the training data")
    about = {"hold_out": {"data": data, "split": split, "inputs": len(rows)}, "held_out": [ids[row] for row in rows]}
    return _HeldOut(members, dataset.tensors(rows), torch.from_numpy(dataset.labels[rows].copy()), chosen, about)


def _trained(members: list[Checkpoint], dataset: Any) -> set[int]:
    """The rows that any member was trained on, if it was on these data."""
    from smoothcert.models.ensembles.file import trained_on
    from smoothcert.training import hold_out

    rows: set[int] = set()
    for member in members:
        for one in trained_on(member.details):
            if one["fingerprint"] == dataset.fingerprint:
                rows.update(hold_out(len(dataset), float(one["holdout"]))[0])
    return rows


def _write(out: Path, aggregation: str, members: list[Path], options: dict[str, Any], details: dict[str, Any]) -> None:
    from smoothcert.models import ensembles

    made = ensembles.save(out, aggregation, members, options, details)
    typer.echo(f"{made.architecture.name} is written to {out}; see: smoothcert certify --model {out}", err=True)


def _say(table: Table, content: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(content))
    else:
        o.console().print(table)


def _whole(sizes: str) -> list[int]:
    numbers = o.numbers(sizes, "--sizes")
    if not all(number.is_integer() for number in numbers):
        raise InputError(f"--sizes must be whole numbers, as in 1,2,5, got {sizes!r}")
    return [int(number) for number in numbers]
