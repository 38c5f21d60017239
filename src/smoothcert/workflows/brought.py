"""What was certified, brought again for a run: its model, or its router and members; the same, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert.audit.rebuild import check_model, other_model, refuse_another
from smoothcert.core.errors import InputError
from smoothcert.engine import Pool, Routed, Smoothed
from smoothcert.engine.backends import BACKENDS
from smoothcert.memory import Memory
from smoothcert.noise import Noise
from smoothcert.runs import Finding, ModelConfig, RoutingConfig, Run
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.of_run import rebuilt, run_calibration, run_model
from smoothcert.workflows.routing import Opened, RoutedModels, open_parts
from smoothcert.workflows.sources import Classifier, DataSource, ModelSource, calibration_inputs

AnyModel = ModelSource | RoutedModels | Routed
"""What was certified: a model, or a router and its members."""


def routed_models(run: Run, model: AnyModel) -> RoutedModels | None:
    """The models of a routed run; None for a run without a router. What does not go with the run is refused."""
    routing = run.config.routing
    found = RoutedModels.of(model) if isinstance(model, Routed) else model
    if routing is None:
        if isinstance(found, RoutedModels):
            raise InputError(f"{run.path} was certified without a router; give its model alone")
        return None
    strengths = ", ".join(f"{strength:g}" for strength in routing.strengths)
    if not isinstance(found, RoutedModels):
        raise InputError(
            f"{run.path} was certified with a router; give --router, and --model STRENGTH=MODEL for each of {strengths}"
        )
    if tuple(sorted(found.members)) != routing.strengths:
        given = ", ".join(f"{strength:g}" for strength in sorted(found.members))
        raise InputError(f"{run.path} has models for the strengths {strengths}, got {given}; give these models")
    return found


def open_run_parts(run: Run, models: RoutedModels, *, device: str | None, observer: Observer = SILENT) -> Opened:
    """The models that were brought for a routed run; those of other fingerprints are refused."""
    where, classes = device or run.config.device, run.config.num_classes
    opened = open_parts(models, None, device=where, num_classes=classes, observer=observer)
    then = run.config.classifier
    _refuse(run, opened.router, then["router"], "router")
    for strength, member in opened.members.items():
        _refuse(run, member, then["members"][repr(strength)], f"model of {strength:g}")
    return opened


def rebuild_routed(
    run: Run,
    opened: Opened,
    *,
    seed: int | None = None,
    workers: int | None = None,
    pool: Pool | None = None,
    calibration: Tensor | None = None,
    input_range: tuple[float, float] | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> Routed:
    """The run's routed classifier: noises, backends, batch sizes and seed; `seed` is another one than the run's."""
    config, routing = run.config, run.config.routing
    assert routing is not None
    base = config.built_noise

    def part(model: Classifier, noise: Noise, then: Mapping[str, Any], stream: str, what: str) -> Smoothed:
        smoothed = Smoothed(
            model.model,
            model.num_classes,
            noise,
            config.seed if seed is None else seed,
            batch_size=then["batch"],
            workers=workers,
            pool=pool,
            backend=then["backend"]["name"],
            calibration=calibration if _is_int8(then) else None,
            input_range=input_range,
            input_shape=model.input_shape or input_shape,
        )
        refuse_another(run, smoothed, then, stream, same_draws=seed is None, what=what)
        return smoothed

    members = {
        strength: part(
            member,
            base.with_strength(strength),
            config.classifier["members"][repr(strength)],
            config.stream,
            f"model of {strength:g}",
        )
        for strength, member in opened.members.items()
    }
    own = Noise.from_description(routing.noise)
    router = part(opened.router, own, config.classifier["router"], routing.stream, "router")
    return Routed(router, members, router_share=_share(config.alpha, routing))


def routed_calibration(run: Run, given: Any, data: DataSource | None, root: Path | None) -> Tensor | None:
    """The calibration inputs of a routed run with an int8 backend; see `run_calibration`."""
    then = run.config.classifier
    parts = [then["router"], *then["members"].values()]
    backend = next((part["backend"]["name"] for part in parts if _is_int8(part)), "eager")
    named = run.config.model.calibration
    name, _, split = str(named).rpartition(":")
    if isinstance(data, str | Path) and name == run.config.data.name:
        named = f"{data}:{split}"
    return calibration_inputs(backend, given, named, root)[0]


@dataclass(frozen=True)
class Brought:
    """What was brought for a run, checked by its fingerprints: one model, or a router and its members."""

    run: Run
    parts: Classifier | Opened

    @property
    def classifier(self) -> Classifier:
        """The model; of a router's members, which take the same inputs and tell the same classes apart, the first."""
        return self.parts if isinstance(self.parts, Classifier) else next(iter(self.parts.members.values()))

    @property
    def notes(self) -> list[str]:
        """What a reader should know: a model that is called otherwise."""
        return [
            f"the run calls its model {', '.join(said.files)}: it is this one, renamed"
            for said, about in self._pairs()
            if said.files and about.files and about.files != said.files
        ]

    def findings(self) -> list[Finding]:
        """What the run says of where its models came from, and does not hold."""
        return [
            finding
            for said, about in self._pairs()
            if about.architecture is not None
            for finding in check_model(said, architecture=about.architecture, ensemble=about.ensemble)
        ]

    def check_shape(self, shape: Sequence[int], data: str) -> None:
        """Refuse inputs that a model was not made for."""
        parts = (
            [self.parts] if isinstance(self.parts, Classifier) else [self.parts.router, *self.parts.members.values()]
        )
        for part in parts:
            part.check_shape(shape, data)

    def calibration(self, given: Any, data: DataSource | None, root: Path | None) -> Tensor | None:
        """Of the run's int8 backend."""
        find = run_calibration if isinstance(self.parts, Classifier) else routed_calibration
        return find(self.run, given, data, root)

    def again(
        self,
        *,
        seed: int | None = None,
        workers: int | None = None,
        pool: Pool | None = None,
        calibration: Tensor | None = None,
        memory: Memory | None = None,
        input_range: tuple[float, float] | None = None,
        input_shape: tuple[int, ...] | None = None,
    ) -> Smoothed | Routed:
        """The run's classifier (`audit.rebuild`); `seed` is another one than the run's."""
        if isinstance(self.parts, Classifier):
            return rebuilt(
                self.run, self.parts, seed=seed, workers=workers, pool=pool, calibration=calibration, memory=memory,
                input_range=input_range, input_shape=input_shape,
            )  # fmt: skip
        return rebuild_routed(
            self.run, self.parts, seed=seed, workers=workers, pool=pool, calibration=calibration,
            input_range=input_range, input_shape=input_shape,
        )  # fmt: skip

    def _pairs(self) -> list[tuple[ModelConfig, ModelConfig]]:
        """What the run says of each model, and what is known of the one that was brought."""
        routing = self.run.config.routing
        if isinstance(self.parts, Classifier) or routing is None:
            return [(self.run.config.model, self.classifier.about)]
        found = self.parts.about
        return [(routing.router, found.router), *zip(routing.members, found.members, strict=True)]


def bring(run: Run, model: AnyModel, *, device: str | None = None, observer: Observer = SILENT) -> Brought:
    """What was brought for a run, where the run was made; models of other fingerprints are refused."""
    models = routed_models(run, model)
    if models is not None:
        return Brought(run, open_run_parts(run, models, device=device, observer=observer))
    assert not isinstance(model, RoutedModels | Routed)
    return Brought(run, run_model(run, model, device=device, observer=observer))


def _share(alpha: float | None, routing: RoutingConfig) -> float:
    """The router's share of alpha, from what it became."""
    return float(routing.router_procedure["alpha"] / alpha) if alpha else 0.5


def _is_int8(part: Mapping[str, Any]) -> bool:
    name = part["backend"]["name"]
    return name in BACKENDS and BACKENDS[name].int8


def _refuse(run: Run, found: Classifier, then: Mapping[str, Any], what: str) -> None:
    now = found.about.fingerprint
    if now is not None and then.get("fingerprint") not in (None, now):
        raise other_model(run, "fingerprint", now, then.get("fingerprint"), what)
