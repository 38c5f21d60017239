"""Choices by name, as a command or a request makes them, and what they become for a model and its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.engine.pools import Pool, Processes, Ray, Threads
from smoothcert.engine.sigma import SigmaSearch, sigma_search
from smoothcert.engine.weights import WeightSearch, weight_search
from smoothcert.noise import NOISES, Noise
from smoothcert.noise.gridded import MOST_GRID_LEVELS
from smoothcert.procedures import Budgeted, Evaluate, FixedDraws, Procedure


@dataclass(frozen=True)
class NoiseChoice:
    """A noise by its name; what is left open is taken from the model and the data.

    Args:
        name: of the noise.
        strength: sigma, half width, scale or keep probability; None: as the model was trained.
        norm: of the radii; None: the noise's own.
        values: number of pixel levels, for ablation noise; None: as the model was trained.
        grid: levels of exact sampling such as "255", "off", or "auto": 255 for 8-bit images if the noise can.
        more: options that a noise from a plug-in has.
    """

    name: str = "gaussian"
    strength: float | None = None
    norm: str | None = None
    values: int | None = None
    grid: str = "auto"
    more: Mapping[str, Any] = field(default_factory=dict)

    def resolve(self, details: Mapping[str, Any], *, eight_bit: bool) -> Noise:
        """The noise, for a model with these details and for inputs that are 8-bit images or not."""
        kind = NOISES.find(self.name)
        takes = {f.name for f in fields(kind)}
        trained: Mapping[str, Any] = details.get("noise") or {}
        values = trained.get("values") if self.values is None and trained.get("name") == self.name else self.values
        given = {"norm": self.norm, "values": values, "grid": _grid_step(self.grid, eight_bit and "grid" in takes)}
        options: dict[str, Any] = {key: value for key, value in given.items() if value is not None} | dict(self.more)
        for key in options:
            if key not in takes:
                raise InputError(f"--{key} does not go with --noise {self.name}; leave it out")
        return kind(**{kind.strength_name: self._strength(kind, details)}, **options)

    def _strength(self, kind: type[Noise], details: Mapping[str, Any]) -> float:
        if self.strength is not None:
            return self.strength
        trained: Mapping[str, Any] = details.get("noise") or {}
        if (other := trained.get("name")) not in (None, self.name):
            raise InputError(
                f"the model was trained under {other} noise; give --noise {other}, or --sigma, the "
                f"{kind.strength_name} of {self.name} noise"
            )
        if trained.get("name") != self.name or kind.strength_name not in trained:
            raise InputError(f"give --sigma, the {kind.strength_name} of the noise: the checkpoint does not name one")
        return float(trained[kind.strength_name])


def resolve_noise(choice: Noise | NoiseChoice, details: Mapping[str, Any], *, eight_bit: bool) -> Noise:
    """The noise itself, or what the choice becomes."""
    return choice.resolve(details, eight_bit=eight_bit) if isinstance(choice, NoiseChoice) else choice


@dataclass(frozen=True)
class SearchChoice:
    """A search for each input's own strength, by the name of its method; None: no search, or its own default."""

    method: str | None = None
    steps: int | None = None
    draws: int | None = None
    lr: float | None = None
    span: float | None = None

    def resolve(self, procedure: Procedure) -> SigmaSearch | None:
        """The search, for certificates of that procedure."""
        if self.method is None:
            given = [name for name in ("steps", "draws", "lr", "span") if getattr(self, name) is not None]
            if given:
                raise InputError(f"--sigma-{given[0]} goes with --sigma-per-input; give it, or leave this out")
            return None
        if not isinstance(procedure, FixedDraws | Budgeted | Evaluate):
            raise InputError(
                f"--sigma-per-input looks for the largest radius, and --procedure {procedure.name} decides given ones; "
                "take fixed or budgeted"
            )
        purpose = {"n": procedure.fixed_draws(), "alpha": procedure.alpha} if self.method == "bracket" else {}
        return sigma_search(self.method, steps=self.steps, draws=self.draws, lr=self.lr, span=self.span, **purpose)


@dataclass(frozen=True)
class WeightsChoice:
    """A search for each input's own weights of an ensemble, by name; None: no search, or its own default."""

    method: str | None = None
    draws: int | None = None
    copies: int | None = None
    share: float | None = None
    spread: float | None = None

    def resolve(self) -> WeightSearch | None:
        """The search."""
        options = {name: value for name, value in vars(self).items() if name != "method" and value is not None}
        if self.method is not None:
            return weight_search(self.method, **options)
        for name in options:
            raise InputError(f"--weights-{name} goes with --weights-per-input; give it, or leave this out")
        return None


@dataclass(frozen=True)
class PoolChoice:
    """Where the model is run, by name.

    Args:
        name: threads, processes or ray.
        workers: how many. Default: all cores, all GPUs, or all of the cluster.
        address: of a Ray cluster.
        gpus_per_worker: a share of a GPU for each worker, of processes and ray.
    """

    name: str = "threads"
    workers: int | None = None
    address: str | None = None
    gpus_per_worker: float | None = None

    def resolve(self) -> Pool:
        """The pool."""
        if self.name not in POOLS:
            raise InputError(f"--pool must be {', '.join(POOLS[:-1])} or {POOLS[-1]}, got {self.name!r}")
        if self.address is not None and self.name != "ray":
            raise InputError("--address is that of a Ray cluster; give --pool ray, or leave it out")
        if self.gpus_per_worker is not None and self.name == "threads":
            raise InputError("--gpus-per-worker goes with --pool processes or ray; give one, or leave it out")
        if self.name == "ray":
            return Ray(self.address, self.workers, self.gpus_per_worker)
        return Processes(self.workers, self.gpus_per_worker) if self.name == "processes" else Threads(self.workers)


POOLS = ("threads", "processes", "ray")


def resolve_pool(choice: Pool | PoolChoice | None) -> Pool | None:
    """The pool itself, or what the choice becomes."""
    return choice.resolve() if isinstance(choice, PoolChoice) else choice


def _grid_step(text: str, automatic: bool) -> float | None:
    """The step of the grid, or None for float32."""
    if text in ("auto", "off"):
        return 1 / 255 if text == "auto" and automatic else None
    if not text.isdecimal() or not 1 <= int(text) <= MOST_GRID_LEVELS:
        raise InputError(
            f"--grid must be auto, off, or a whole number from 1 to {MOST_GRID_LEVELS} such as 255, got {text!r}"
        )
    return 1 / int(text)
