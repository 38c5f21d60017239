"""What a server answers with: a model, or a router and its members, smoothed; those of a run as they were certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smoothcert.audit.memory import refuse_other_memory
from smoothcert.audit.rebuild import other_circumstances
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import loaded_plugins
from smoothcert.engine import Pool, Routed, Smoothed
from smoothcert.memory import Memory
from smoothcert.procedures import Procedure
from smoothcert.runs import ModelConfig, Run
from smoothcert.service.journal import ServiceConfig
from smoothcert.workflows.brought import AnyModel, Brought, bring
from smoothcert.workflows.choices import resolve_noise
from smoothcert.workflows.observer import PlainLines
from smoothcert.workflows.predict import Running
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.recording import RoutedModelConfigs, routing_of
from smoothcert.workflows.routing import Opened, RoutedModels, build_routed, open_parts
from smoothcert.workflows.sources import Classifier, calibration_inputs, open_model

Say = Callable[[str], None]


@dataclass(frozen=True)
class Served:
    """What answers, and all that is known of it.

    Args:
        classifier: the model; of a router's members, which take the same inputs and tell the same classes apart, one.
        smoothed: what is sampled. Its own seed is for looking at the model only.
        procedure: how it decides where a request does not say otherwise.
        models: of a router and its members, where they came from.
    """

    classifier: Classifier
    smoothed: Smoothed | Routed
    procedure: Procedure
    models: RoutedModelConfigs | None = None

    @property
    def example(self) -> torch.Tensor:
        """An input like those that will come, (1, ...)."""
        return torch.zeros(1, *_shape(self.classifier))

    @property
    def input_range(self) -> tuple[float, float] | None:
        """Of images; tables have none."""
        return _input_range(self.classifier)

    def config(self, memory: Memory | None) -> ServiceConfig:
        """What is written beside the answers; the key is that of each folder."""
        compiled, noise = self.smoothed.compile(self.example.shape[1:]), self.smoothed.noise.for_inputs(self.example)
        return ServiceConfig(
            key="",
            model=self.classifier.about if self.models is None else ModelConfig(),
            classifier=compiled.description,
            num_classes=self.smoothed.num_classes,
            class_names=tuple(self.classifier.class_names),
            noise=noise.describe(),
            routing=routing_of(self.smoothed, compiled, self.procedure, self.example, self.models),
            router_share=self.smoothed.router_share if isinstance(self.smoothed, Routed) else None,
            stream=noise.stream_kind(compiled.device),
            input_shape=tuple(self.example.shape[1:]),
            memory=None if memory is None else memory.claim(compiled.description, noise.describe(), compiled.shape),
            plugins=loaded_plugins(),
        )


def open_served(
    model: AnyModel,
    run: Run | str | Path | None,
    running: Running | None,
    procedure: Procedure | ProcedureChoice | None,
    memory: Memory | None,
    calibration: Any,
    device: str | None,
    pool: Pool | None,
    data_root: Path | None,
    say: Say,
) -> Served:
    """The model or the router and its members, smoothed as the run has it or as is said; see `serve`."""
    chosen = procedure.resolve() if isinstance(procedure, ProcedureChoice) else procedure
    routed = RoutedModels.of(model) if isinstance(model, Routed) else model
    if isinstance(routed, RoutedModels) and memory is not None:
        raise InputError("a routed classifier answers by itself; leave --memory out")
    lines = PlainLines(say)
    if run is not None:
        opened = run if isinstance(run, Run) else Run.open(Path(run))
        if running is not None:
            raise InputError(f"noise and backend are settled by the run {opened.path}; leave them out")
        brought = bring(opened, routed, device=device, observer=lines)
        certified = _of_run(brought, memory, calibration, pool, data_root, say)
        models = brought.parts.about if isinstance(brought.parts, Opened) else None
        return Served(brought.classifier, certified, chosen or opened.config.built_procedure, models)
    how, decides = running or Running(), chosen or ProcedureChoice("fixed", n=10_000).resolve()
    inputs = calibration_inputs(how.backend, calibration, None, data_root)[0]
    if isinstance(routed, RoutedModels):
        return _new_routed(open_parts(routed, None, device=device, observer=lines), routed, how, decides, inputs, pool)
    classifier = open_model(routed, device=device, observer=lines)
    smoothed = Smoothed(
        classifier.model,
        num_classes=classifier.num_classes,
        noise=resolve_noise(how.noise, classifier.details, eight_bit=_input_range(classifier) is not None),
        batch_size=how.batch_size,
        pool=pool,
        backend=how.backend,
        calibration=inputs,
        input_range=_input_range(classifier),
        input_shape=_shape(classifier),
    )
    return Served(classifier, smoothed, decides)


def _new_routed(
    parts: Opened,
    models: RoutedModels,
    how: Running,
    procedure: Procedure,
    calibration: torch.Tensor | None,
    pool: Pool | None,
) -> Served:
    first = next(iter(parts.members.values()))
    for part in (parts.router, *parts.members.values()):
        part.check_shape(_shape(first), "of the first model")
    routed = build_routed(
        parts, models, how.noise, seed=0, eight_bit=_input_range(first) is not None, pool=pool, workers=None,
        backend=how.backend, batch_size=how.batch_size, calibration=calibration, input_range=_input_range(first),
        input_shape=_shape(first),
    )  # fmt: skip
    return Served(first, routed, procedure, parts.about)


def _of_run(
    brought: Brought, memory: Memory | None, calibration: Any, pool: Pool | None, data_root: Path | None, say: Say
) -> Smoothed | Routed:
    """The run's classifier, or a refusal. Its memory is asked by the service, not by `Smoothed`."""
    run, classifier = brought.run, brought.classifier
    _shape(classifier)
    own = "sigma" if run.config.sigma_search else "weights" if run.config.own_weights else None
    if own is not None:
        raise InputError(
            f"{run.path} chose the {own} of each input by a seed that is known, and a server draws under a secret one; "
            f"certify with {'one --sigma' if own == 'sigma' else 'fixed weights'} for all, or with a --router"
        )
    refuse_other_memory(run, memory)
    smoothed = brought.again(
        seed=0,
        pool=pool,
        calibration=brought.calibration(calibration, None, data_root),
        input_range=_input_range(classifier),
    )
    for what in other_circumstances(run, smoothed):
        say(f"the model is not run as it was certified, and may round otherwise: {what}")
    return smoothed


def _shape(classifier: Classifier) -> tuple[int, ...]:
    if classifier.input_shape is None:
        raise InputError("serve needs a model whose file says which inputs it takes: a checkpoint or an ensemble")
    return classifier.input_shape


def _input_range(classifier: Classifier) -> tuple[float, float] | None:
    shape = classifier.input_shape or ()
    return (0.0, 1.0) if len(shape) == 3 and shape[0] in (1, 3) else None
