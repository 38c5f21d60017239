"""The smoothed classifier that a run certified, from the run and the model: the same one, or a refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from smoothcert import datasets
from smoothcert.core.described import plain
from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import input_id
from smoothcert.datasets import Dataset
from smoothcert.engine import Pool, Routed, Smoothed
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.engine.weights import WeightSearch
from smoothcert.memory.protocol import RegionMemory
from smoothcert.procedures import FixedDraws
from smoothcert.procedures.identity import flat, identifying
from smoothcert.runs import Finding, ModelConfig, Run
from smoothcert.runs.damage import damaged


def rebuild(
    run: Run,
    model: Model,
    num_classes: int,
    *,
    seed: int | None = None,
    workers: int | None = None,
    pool: Pool | None = None,
    calibration: Tensor | None = None,
    memory: RegionMemory | None = None,
    input_range: tuple[float, float] | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> Smoothed:
    """The run's smoothed classifier: its noise (or the search for each input's), backend, batch size and seed.

    `seed` is another one than the run's.

    `calibration` are the inputs that an int8 backend was made with. A model that is not the one certified is refused,
    naming what differs, and so is one without a fingerprint.
    """
    config = run.config
    if config.backend is None or config.batch_size is None:
        raise damaged(run.path / "run.json", "it does not say which classifier it certified")
    smoothed = Smoothed(
        model,
        num_classes,
        config.built_noise,
        config.seed if seed is None else seed,
        batch_size=config.batch_size,
        workers=workers,
        pool=pool,
        backend=config.backend,
        calibration=calibration,
        search=None if config.sigma_search is None else SigmaSearch.from_description(config.sigma_search),
        weights=None if config.own_weights is None else WeightSearch.from_description(config.own_weights),
        memory=memory,
        input_range=input_range,
        input_shape=input_shape,
    )
    refuse_another(run, smoothed, config.classifier, config.stream, same_draws=seed is None)
    return smoothed


def refuse_another(
    run: Run, smoothed: Smoothed, classifier: Mapping[str, Any], stream: str, *, same_draws: bool, what: str = "model"
) -> None:
    """Refuse a classifier that is not the one described, naming what differs; with `same_draws`, other draws, too."""
    now, then = flat(smoothed.describe()), flat(classifier)
    here = smoothed.noise.stream_kind(str(now["device"]))
    if stream != here and same_draws:
        raise InputError(
            f"{run.path} was drawn by {stream}, and here draws are made by {here}, which are others; "
            f"draw again where the run was made: on {then.get('device')}"
        )
    for name in identifying(then):
        if now.get(name) != then.get(name):
            raise other_model(run, name, now.get(name), then.get(name), what)
    if then.get("fingerprint") is None:
        raise InputError(f"{run.path} certified a function without a fingerprint: nobody can tell whether it is this")


def refuse_other_model(run: Run, fingerprint: str | None) -> None:
    """Refuse another model than the run's by its fingerprint, before anything else is asked of it."""
    then = run.config.fingerprint
    if then is not None and fingerprint is not None and fingerprint != then:
        raise other_model(run, "fingerprint", fingerprint, then)


def other_model(run: Run, name: str, now: object, then: object, what: str = "model") -> InputError:
    """The refusal of another model than the run's."""
    return InputError(
        f"the {what} is not the one that {run.path} certified: its {name} is {now}, certified was {then}; "
        f"give that {what}"
    )


def other_circumstances(run: Run, smoothed: Smoothed | Routed) -> list[str]:
    """How the same model is run in other circumstances than it was: scores may round otherwise, and ties fall so."""
    if not isinstance(smoothed, Routed):
        return differing(smoothed, run.config.classifier)
    then = run.config.classifier
    members = [differing(member, then["members"][repr(s)]) for s, member in smoothed.members.items()]
    return sorted({sentence for found in (differing(smoothed.router, then["router"]), *members) for sentence in found})


def differing(smoothed: Smoothed, classifier: Mapping[str, Any]) -> list[str]:
    """How one classifier is run otherwise than is described."""
    now, then = flat(smoothed.describe()), flat(classifier)
    return [
        f"{name} is {now.get(name)}, was {then.get(name)}"
        for name in sorted({*now, *then} - set(identifying(then)))
        if now.get(name) != then.get(name)
    ]


def check_model(
    said: ModelConfig, *, architecture: Mapping[str, Any], ensemble: Mapping[str, Any] | None
) -> tuple[Finding, ...]:
    """What a run says of where a model came from, against the model with its fingerprint that is at hand."""
    pairs = {"architecture": (said.architecture, architecture), "ensemble": (said.ensemble, ensemble)}
    return tuple(
        Finding("model", f"run.json calls the model's {name} {plain(then)!r}, it is {plain(now)!r}")
        for name, (then, now) in pairs.items()
        if then is not None and plain(then) != plain(now)
    )


def refuse_soft(run: Run, what: str) -> None:
    """Refuse a run of soft scores: it certifies the highest mean score, and a majority vote may answer otherwise."""
    procedure = run.config.built_procedure
    if isinstance(procedure, FixedDraws) and procedure.bound.beta is not None:
        raise InputError(
            f"{run.path} certified the soft classifier (bound {procedure.bound.name}), and {what} asks for the "
            "majority vote, which is another one; certify with the bound clopper-pearson"
        )


def refuse_other_data(run: Run, data: Dataset) -> None:
    """Refuse data that are not those that the run certified."""
    then = run.config.data.fingerprint
    if then != data.fingerprint:
        raise InputError(
            f"data {data.name} ({data.split}) are not those that {run.path} certified: their fingerprint is "
            f"{data.fingerprint[:12]}..., certified was {then[:12]}...; give the same data"
        )
    if run.config.data.inputs_digest not in (None, planned_inputs(data, run.planned).digest):
        raise InputError(
            f"data {data.name} ({data.split}) have the names and sizes of those that {run.path} certified, but other "
            "numbers: files were changed, or are decoded otherwise here; give the same data"
        )


class PlannedInputs(NamedTuple):
    """What a run says of the inputs that it plans: how many are different, and which they are."""

    distinct: int  # equal ones have equal noise, and so equal votes
    digest: str  # of the id of each, in order


def planned_inputs(data: Dataset, indices: Sequence[int]) -> PlannedInputs:
    """Read every one of these inputs, a few at a time."""
    ids = [input_id(x) for part in data.parts(indices) for x in data.tensors(part)]
    return PlannedInputs(len(set(ids)), hashlib.sha256("\n".join(ids).encode()).hexdigest())


def check_data(run: Run, data: Dataset) -> tuple[Finding, ...]:
    """What the run says about the data with its fingerprint that are at hand, and does not hold of them.

    The name of a file of one's own may change; that of a known data set says which inputs they are.
    """
    said = run.config.data
    findings = []
    known = said.name in datasets.names() or data.name in datasets.names()
    if known and (said.name, said.split) != (data.name, data.split):
        sentence = f"run.json calls the data {said.name} ({said.split}), they are {data.name} ({data.split})"
        findings.append(Finding("data", sentence))
    if said.size != len(data):
        findings.append(Finding("data", f"run.json says that there are {said.size} inputs, the data have {len(data)}"))
    there = [index for index in run.planned if 0 <= index < len(data)]
    if len(there) == len(run.planned) and said.distinct != (distinct := planned_inputs(data, there).distinct):
        sentence = f"run.json says that {said.distinct} of the planned inputs are different, the data have {distinct}"
        findings.append(Finding("data", sentence))
    names = run.config.class_names
    # Names of a model, or of a file, stand where data have only numbers, or nothing, to call their classes by.
    nameless = not datasets.is_numbered(names) and datasets.is_numbered(data.class_names)
    if names and data.class_names and names != tuple(data.class_names) and not nameless:
        findings.append(Finding("data", "the names of the classes are not those of the data"))
    return tuple(findings)
