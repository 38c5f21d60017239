"""Ensembles: who is asked first, with which weights, how many members; and the file that says so."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from smoothcert.analysis import variance
from smoothcert.analysis.robustness import at_least
from smoothcert.core.errors import InputError
from smoothcert.core.randomness import input_id
from smoothcert.datasets import Dataset, Subset
from smoothcert.models import Checkpoint, ensembles, in_own_precision
from smoothcert.models.ensembles import Estimation, Ranking, SoftVoting, Weights
from smoothcert.models.ensembles.file import trained_on
from smoothcert.models.ensembles.sampling import noisy_logits
from smoothcert.models.ensembles.sween import plain_radius
from smoothcert.noise import Noise
from smoothcert.training import hold_out
from smoothcert.workflows.choices import NoiseChoice, resolve_noise
from smoothcert.workflows.sources import DataSource, load_model, open_data, open_model

METHODS = ("radius", "convex", "sgd", "minimum-variance")


@dataclass(frozen=True)
class HoldOut:
    """Which inputs may settle an ensemble: inputs that a member was trained on are left out, by content.

    Args:
        data: see `certify`.
        split: test or train.
        subset: of what is left. The default takes 1, 21, 41, ..., and leaves 0, 20, 40, ... to certify.
        noise: without a grid, since nothing is certified. Default: that of training.
        data_root: where the files of named data sets lie.
    """

    data: DataSource
    split: str = "test"
    subset: Subset = field(default_factory=lambda: Subset(start=1, every=20))
    noise: Noise | NoiseChoice = field(default_factory=lambda: NoiseChoice(grid="off"))
    data_root: Path | None = None


@dataclass(frozen=True)
class HeldOut:
    """Members, and the inputs that none of them was trained on."""

    members: list[Checkpoint]
    x: Tensor
    y: Tensor
    noise: Noise
    about: dict[str, Any]  # for the ensemble file: certify refuses these inputs
    rows: tuple[int, ...]  # which inputs of the data they are

    @property
    def models(self) -> list[nn.Module]:
        """The members as modules."""
        return [cast(nn.Module, in_own_precision(member.model)) for member in self.members]


@dataclass(frozen=True)
class Plan:
    """What members are worth: per size of the ensemble, and how much of the variance they share."""

    zeta_p: float
    zeta_c: float
    sizes: tuple[variance.Size, ...]
    mixing_helps: float | None = None  # None: of one member nothing is known of how members differ
    shared: float | None = None

    @property
    def note(self) -> str:
        """What the members have in common, in words."""
        if self.shared is None:
            return "with one member nothing is known of how members differ; give several"
        return (
            f"two of these members share up to {self.shared:.0%} of the variance of one: the less they do, the more "
            "they bring together; compare kinds of members by it"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        content: dict[str, Any] = {"zeta_p": self.zeta_p, "zeta_c": self.zeta_c}
        content["sizes"] = [dataclasses.asdict(row) for row in self.sizes]
        return content if self.shared is None else content | {"mixing_helps": self.mixing_helps, "shared": self.shared}


def make(
    members: Sequence[str | Path],
    out: str | Path,
    *,
    aggregation: str = "soft-voting",
    options: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Write an ensemble of these files, in this order, to a .json file; gives it as `load_model` would."""
    return ensembles.save(out, aggregation, members, options, details)


def rank(
    members: Sequence[str | Path],
    held: HoldOut,
    *,
    draws: int = 10,
    seed: int = 0,
    out: str | Path | None = None,
    aggregation: str = "consensus",
    options: Mapping[str, Any] | None = None,
) -> Ranking:
    """Order members by their accuracy under noise; with `out`, write an ensemble that asks the best one first."""
    opened = open_held_out(members, held)
    found = ensembles.rank(opened.models, opened.x, opened.y, noise=opened.noise, draws=draws, seed=seed)
    if out is not None:
        content = {"order": list(found.order), "accuracy": list(found.accuracy)}
        details = opened.about | {"ranking": content, "seed": seed}
        make([members[i] for i in found.order], out, aggregation=aggregation, options=options, details=details)
    return found


def weights(
    members: Sequence[str | Path],
    held: HoldOut,
    *,
    method: str = "radius",
    at: float | None = None,
    signed: bool = False,
    draws: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    aggregation: str = "softmax-voting",
    options: Mapping[str, Any] | None = None,
) -> Weights:
    """Find weights on hold-out data: radius (ours), convex or sgd (SWEEN), or minimum-variance (EsbRS).

    "radius" maximises the average certified radius, or the certified accuracy at the radius `at`; of soft-voting it
    weighs logits, which may be `signed`. `draws` of noise per input settle them, by default 32 of radius, 100 of
    convex, 10 of minimum-variance; of sgd it is `steps`, by default 4688. With `out`, the ensemble is written.
    `options` are those of the aggregation besides its weights.
    """
    if method not in METHODS:
        raise InputError(f"--method must be radius, convex, sgd or minimum-variance, got {method!r}")
    if method != "radius" and (at is not None or signed):
        raise InputError(f"--at and --signed go with --method radius, not with {method}; leave them out")
    if signed and aggregation != SoftVoting.name:
        raise InputError(f"--signed weighs logits, and {aggregation} does not; give --aggregation {SoftVoting.name}")
    if draws is not None and method == "sgd":
        raise InputError(
            "--draws does not go with --method sgd, which takes one per visit; give --steps, or leave it out"
        )
    if steps is not None and method != "sgd":
        raise InputError(f"--steps goes with --method sgd, not with {method}; leave it out")
    opened = open_held_out(members, held)
    if method == "minimum-variance":
        estimation = Estimation() if draws is None else Estimation(draws=draws)
        found = ensembles.minimum_variance_weights(
            opened.models, opened.x, noise=opened.noise, estimation=estimation, seed=seed
        )
    else:
        kind = cast(Literal["radius", "convex", "sgd"], method)
        by_radius = method == "radius" and aggregation == SoftVoting.name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # whoever called reads the notes
            found = ensembles.sween_weights(
                opened.models, opened.x, opened.y, noise=opened.noise, method=kind, seed=seed, signed=signed,
                draws=draws, steps=steps,
                of="logits" if by_radius else "probabilities",
                gamma=plain_radius if at is None else at_least(at),
            )  # fmt: skip
    if out is not None:
        details = opened.about | {"found": found.to_json(), "seed": seed}
        given = {"weights": list(found.weights)} | dict(options or {})
        make(members, out, aggregation=aggregation, options=given, details=details)
    return found


def plan(
    members: Sequence[str | Path],
    held: HoldOut,
    *,
    sizes: Sequence[int] = (1, 2, 3, 5, 10, 20, 50),
    draws: int = 128,
    n: int = 100_000,
    alpha: float = 0.001,
    seed: int = 0,
) -> Plan:
    """How many members are worth it: the variance they leave, the radius that buys, and the evaluations it costs."""
    if draws < 2:
        raise InputError(f"--draws must be at least 2 for a variance, got {draws}")
    opened = open_held_out(members, held)
    logits = noisy_logits(opened.models, opened.x, opened.noise, draws, seed)
    rows = variance.plan(logits, opened.y.numpy(), list(sizes), sigma=opened.noise.strength, n=n, alpha=alpha)
    model = variance.components(logits)
    found = Plan(model.zeta_p, model.zeta_c, tuple(rows))
    if len(members) < 2:
        return found
    top, most = variance.mixing(logits)
    return dataclasses.replace(found, mixing_helps=float((top > most).mean()), shared=float(most.mean() / top.mean()))


def open_held_out(paths: Sequence[str | Path], held: HoldOut) -> HeldOut:
    """Load members and data; what a member was trained on is no hold-out data, by content."""
    members = [load_model(path) for path in paths]
    dataset = open_data(held.data, held.split, root=held.data_root, called="--data")
    dataset.require_labels("a hold-out set")
    name = str(held.data) if isinstance(held.data, str | Path) else dataset.name
    open_strength = isinstance(held.noise, NoiseChoice) and held.noise.strength is None
    for member in members:
        open_model(member, example=dataset.tensors([0])).check_shape(dataset.inputs.shape[1:], name)
        if open_strength and member.details.get("noise") != members[0].details.get("noise"):
            raise InputError("members were trained under different noise; give --sigma, the one to certify with")
    noise = resolve_noise(held.noise, members[0].details, eight_bit=False)
    trained = _trained_rows(members, dataset)
    free = [row for row in range(len(dataset)) if row not in trained]
    if not free:
        raise InputError(
            f"--data {name} ({held.split}) is what members were trained on; hold out others, or --split test"
        )
    seen = {input_id(x) for x in dataset.tensors(sorted(trained))}
    rows = [free[index] for index in held.subset.indices(len(free))]
    ids = {row: input_id(x) for row, x in zip(rows, dataset.tensors(rows), strict=True)}
    rows = [row for row in rows if ids[row] not in seen]
    if not rows:
        raise InputError(
            f"all inputs of --data {name} ({held.split}) that were chosen are also among the training data"
        )
    about = {"hold_out": {"data": name, "split": held.split, "inputs": len(rows)}, "held_out": [ids[r] for r in rows]}
    return HeldOut(
        members, dataset.tensors(rows), torch.from_numpy(dataset.labels[rows].copy()), noise, about, tuple(rows)
    )


def _trained_rows(members: Sequence[Checkpoint], dataset: Dataset) -> set[int]:
    """The rows that any member was trained on, if it was on these data."""
    rows: set[int] = set()
    for member in members:
        for one in trained_on(member.details):
            if one["fingerprint"] == dataset.fingerprint:
                rows.update(hold_out(len(dataset), float(one["holdout"]))[0])
    return rows
