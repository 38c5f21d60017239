"""What is known about results: of a run everything that it was made with, of a public log next to nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.core.described import plain
from smoothcert.core.plugins import Plugin
from smoothcert.runs import DataConfig, ModelConfig, RoutingConfig, RunConfig


@dataclass(frozen=True, kw_only=True)
class Settings:
    """None: not known, or there is none. Descriptions (noise, procedure, ...) are as they stand in `run.json`."""

    source: str | None = None  # where they are from, if from no run of ours
    log_sigma: float | None = None  # of a public log, as its name or the user says: logs do not hold it
    data: DataConfig | None = None
    model: ModelConfig | None = None
    classifier: Mapping[str, Any] | None = None
    noise: Mapping[str, Any] | None = None
    sigma_search: Mapping[str, Any] | None = None
    routing: RoutingConfig | None = None
    procedure: Mapping[str, Any] | None = None
    recorded_procedure: Mapping[str, Any] | None = None  # where votes were computed again with another
    fixed_draws: int | None = None  # what `Fixed` would take per input for as much
    seed: int | None = None
    memory: str | None = None
    plugins: tuple[Plugin, ...] | None = None
    alpha: float | None = None  # alpha, norm and scope: if all certificates agree
    norm: str | None = None
    scope: str | None = None
    cost: str | None = None  # what an ensemble asked of its members, in words
    restricted: str | None = None  # to which inputs, in words
    oracle: bool = False  # the best of several for each input: no claim about any classifier
    note: str | None = None  # what a reader of the numbers should know

    @classmethod
    def of(cls, config: RunConfig) -> Settings:
        """Those of a run, before any of its certificates was looked at."""
        return cls(
            data=config.data,
            model=config.model,
            classifier=config.classifier,
            noise=config.noise,
            sigma_search=config.sigma_search,
            routing=config.routing,
            procedure=config.procedure,
            fixed_draws=config.fixed_draws,
            seed=config.seed,
            memory=config.memory,
            plugins=config.plugins or None,
        )

    @property
    def method(self) -> str | None:
        """The name of the procedure."""
        name = None if self.procedure is None else self.procedure.get("name")
        return name if isinstance(name, str) else None

    def to_json(self) -> dict[str, Any]:
        """What is known, as plain JSON."""
        known = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: _known(plain(value)) for name, value in known.items() if value is not None and value is not False}


def _known(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
