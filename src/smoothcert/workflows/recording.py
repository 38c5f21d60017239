"""The configuration of a run, and the loop over its inputs: each record is on disk before the next is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from smoothcert.audit.rebuild import planned_inputs
from smoothcert.core.described import plain
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import loaded_plugins
from smoothcert.datasets import Dataset, Subset
from smoothcert.engine import Compiled, MemberCalls, Routed, Smoothed
from smoothcert.engine.arguments import refuse_labels
from smoothcert.engine.routed_parts import RoutedCompiled
from smoothcert.procedures import Certificate, Procedure
from smoothcert.procedures.routed import split_level
from smoothcert.runs import DataConfig, ModelConfig, Record, RoutingConfig, Run, RunConfig, SubsetConfig


@dataclass(frozen=True)
class RoutedModelConfigs:
    """Where the router of a routed classifier came from, and each of its members, by strength, ascending."""

    router: ModelConfig
    members: tuple[ModelConfig, ...]


def run_config(
    smoothed: Smoothed | Routed,
    procedure: Procedure,
    data: Dataset,
    subset: Subset,
    model: ModelConfig | None = None,
    routed_models: RoutedModelConfigs | None = None,
    *,
    check: bool = True,
) -> RunConfig:
    """Everything that decides what a run's records will be: two runs with equal configurations have equal records.

    `check` is false where the model was looked at before: whether it is a fixed function costs some hundred draws.
    """
    if data.num_classes > smoothed.num_classes:
        raise InputError(
            f"data {data.name} has {data.num_classes} classes but the model answers {smoothed.num_classes}; "
            "certify the data set that the model was trained for"
        )
    noise, indices = smoothed.noise.for_inputs(data.tensors([0])), subset.indices(len(data))
    # What could never work is refused now, before anything is written.
    refuse_labels(procedure, smoothed.memory)
    if isinstance(smoothed, Routed):
        smoothed.check_reachable(data.tensors([0]), procedure)
    else:
        next(procedure.knowing(int(data.labels[indices[0]])).certify(noise))
    if check:
        smoothed.check(data.tensors(indices[:1]))
    compiled = _compiled(smoothed, data)
    planned = planned_inputs(data, indices)
    return RunConfig(
        model=model or ModelConfig(),
        classifier=compiled.description,
        num_classes=smoothed.num_classes,
        class_names=data.class_names,
        noise=noise.describe(),
        sigma_search=None if smoothed.search is None else smoothed.search.describe(),
        routing=routing_of(smoothed, compiled, procedure, data.tensors([0]), routed_models),
        procedure=procedure.describe(),
        seed=smoothed.seed,
        stream=noise.stream_kind(compiled.device),
        data=DataConfig(
            name=data.name,
            split=data.split,
            size=len(data),
            fingerprint=data.fingerprint,
            subset=SubsetConfig(subset.start, subset.every, subset.limit),
            distinct=planned.distinct,
            inputs_digest=planned.digest,
            preprocessing=data.preprocessing.to_json() or None,
            label_column=data.label_column,
        ),
        plugins=loaded_plugins(),
        indices=tuple(indices),
        labels=tuple(int(label) for label in data.labels[indices]),
        memory=_memory(smoothed, compiled, data),  # last: it makes the memory if it is not there
    )


def _compiled(smoothed: Smoothed | Routed, data: Dataset) -> Compiled | RoutedCompiled:
    """The model as it is run on these data."""
    return smoothed.compile(data.tensors([0]).shape[1:])


def routing_of(
    smoothed: Smoothed | Routed,
    compiled: Compiled | RoutedCompiled,
    procedure: Procedure,
    example: Tensor,
    models: RoutedModelConfigs | None,
) -> RoutingConfig | None:
    """What a run says of its router; None where there is none."""
    if not isinstance(smoothed, Routed) or not isinstance(compiled, RoutedCompiled):
        return None
    noise = smoothed.router.noise.for_inputs(example)
    of_router, of_member = split_level(procedure, smoothed.router_share)
    unknown = RoutedModelConfigs(ModelConfig(), (ModelConfig(),) * len(smoothed.strengths))
    return RoutingConfig(
        noise=noise.describe(),
        stream=noise.stream_kind(compiled.router.device),
        strengths=smoothed.strengths,
        router_procedure=of_router.describe(),
        member_procedure=of_member.describe(),
        router=(models or unknown).router,
        members=(models or unknown).members,
    )


def _memory(smoothed: Smoothed | Routed, compiled: Compiled | RoutedCompiled, data: Dataset) -> str | None:
    """The id of the memory that the run answers through; None if through none."""
    if smoothed.memory is None:
        return None
    noise = smoothed.noise.for_inputs(data.tensors([0])).describe()
    return smoothed.memory.claim(compiled.description, noise, compiled.shape)


def _check_remembered(run: Run, smoothed: Smoothed | Routed, data: Dataset, records: Sequence[Record]) -> None:
    """Refuse to go on with an older copy of the memory: it has the right name, and not what was claimed last."""
    claims = [record for record in records if not record.abstained]
    if smoothed.memory is None or not claims:
        return
    found = smoothed.memory.answer(data.tensors([claims[-1].index])[0].numpy())
    if found is None or found.label != claims[-1].prediction:
        raise InputError(
            f"{run.path} cannot be resumed: the memory does not answer input {claims[-1].index} as it is recorded; "
            "give the memory itself, not an older copy"
        )


def certify_into(
    run: Run,
    smoothed: Smoothed | Routed,
    procedure: Procedure,
    data: Dataset,
    *,
    on_draws: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Record], None] = lambda _: None,
    member_calls: MemberCalls | None = None,
) -> None:
    """Certify what is planned and not recorded yet; each record is on disk before the next is announced.

    Another model, noise, procedure, data set or memory than the run's is refused, and so is going on with a model that
    has no fingerprint: nobody could tell whether it is the same. A region is safe in the memory before its record is
    written: after a kill between the two, inserting it again changes nothing. `member_calls` counts what the members of
    an ensemble are asked.
    """
    config, compiled = run.config, _compiled(smoothed, data)
    then = config.routing
    models = None if then is None else RoutedModelConfigs(then.router, then.members)
    given = {
        "classifier": (config.classifier, compiled.description),
        "noise": (config.noise, smoothed.noise.for_inputs(data.tensors([0])).describe()),
        "procedure": (config.procedure, procedure.describe()),
        "seed": (config.seed, smoothed.seed),
        "data": (config.data.fingerprint, data.fingerprint),
        "sigma_search": (config.sigma_search, None if smoothed.search is None else smoothed.search.describe()),
        "router": (then, routing_of(smoothed, compiled, procedure, data.tensors([0]), models)),
    }
    for name, (was, now) in given.items():
        if plain(was) != plain(now):
            raise InputError(f"{run.path} was started with another {name}; certify into a folder of its own")
    if config.memory != _memory(smoothed, compiled, data):  # last: it makes the memory if it is not there
        raise InputError(f"{run.path} was started with another memory; certify into a folder of its own")
    with run.writing() as writer:
        records = run.records()
        recorded = {record.index for record in records}
        _check_remembered(run, smoothed, data, records)
        if recorded and compiled.description["fingerprint"] is None:
            raise InputError(
                f"{run.path} cannot be resumed: its model is a function without a fingerprint, so nobody can tell "
                "whether it is the same; certify into a new folder, or give the function a `fingerprint` attribute"
            )
        todo = [index for index in run.planned if index not in recorded]
        last = time.perf_counter()
        for part in data.parts(todo):  # data may be larger than memory
            x = data.tensors(part)
            labels = [int(label) for label in data.labels[part]]
            for row, certificate in _certifying(smoothed, x, labels, procedure, compiled, on_draws, member_calls):
                now = time.perf_counter()
                record = Record.of(part[row], labels[row], certificate, now - last)
                last = now
                writer.append(record)
                on_record(record)


def _certifying(
    smoothed: Smoothed | Routed,
    x: Tensor,
    labels: Sequence[int],
    procedure: Procedure,
    compiled: Compiled | RoutedCompiled,
    on_draws: Callable[[int], None],
    member_calls: MemberCalls | None,
) -> Iterator[tuple[int, Certificate]]:
    """(row, certificate) as they are there; calls of a routed classifier's ensembles are not counted."""
    if isinstance(smoothed, Routed):
        assert isinstance(compiled, RoutedCompiled)
        return smoothed.certifying(x, procedure, on_draws=on_draws, compiled=compiled)
    assert isinstance(compiled, Compiled)
    return smoothed.certifying(
        x, procedure, labels=labels, on_draws=on_draws, member_calls=member_calls, compiled=compiled
    )
