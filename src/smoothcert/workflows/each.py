"""Which classifiers an ensemble is made of: its members, and each aggregation of the first two, three, ... of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.models import Checkpoint, ensembles, in_own_precision
from smoothcert.models.ensembles import AGGREGATIONS, Consensus, Ensemble, SoftVoting
from smoothcert.models.ensembles import file as ensemble_file
from smoothcert.models.zoo import model_file
from smoothcert.workflows.sources import Files


@dataclass(frozen=True)
class AggregationChoice:
    """An aggregation by its name, with options: `consensus:k=3` on the command line."""

    name: str = SoftVoting.name
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> AggregationChoice:
        """What stands after --aggregation."""
        name, _, rest = text.partition(":")
        options: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            key, is_there, value = part.partition("=")
            if not is_there:
                raise InputError(f"--aggregation takes NAME or NAME:OPTION=VALUE, as in consensus:k=3, got {text!r}")
            try:
                options[key] = json.loads(value)
            except ValueError:
                options[key] = value
        AGGREGATIONS.find(name)
        return cls(name, options)

    @property
    def label(self) -> str:
        """For the name of a run. Weights are too long for it: they are in the ensemble file."""
        return "-".join([self.name, *(f"{key}{value}" for key, value in self.options.items() if key != "weights")])

    def of_first(self, size: int) -> dict[str, Any] | None:
        """The options for the first `size` members; None where so few cannot be aggregated this way."""
        options = dict(self.options)
        if "weights" in options:
            options["weights"] = list(options["weights"])[:size]
            if not any(options["weights"]):
                return None
        if self.name == Consensus.name and options.get("k", 2) > size:
            return None
        return options if AGGREGATIONS[self.name].least <= size else None


@dataclass(frozen=True)
class Named:
    """One of the classifiers: what its run is called, and its file, which is written if it is an ensemble."""

    name: str
    checkpoint: Checkpoint
    files: tuple[Path, ...]
    aggregation: str | None = None  # None: it is a member
    options: Mapping[str, Any] = field(default_factory=dict)
    loaded: tuple[Checkpoint, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """The ensemble file, for `verify` and whoever wants to use this classifier; a member has its own file."""
        if self.aggregation is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self.name}.json"
            ensemble_file.write(path, self.aggregation, self.files, self.loaded, self.options, self.details)

    @property
    def file_names(self) -> tuple[str, ...]:
        """As a run says where its classifier came from."""
        return (self.files[0].name,) if self.aggregation is None else (f"{self.name}.json",)


def classifiers_of(
    model: Files, aggregations: Sequence[AggregationChoice] = (), *, sizes: Sequence[int] | None = None, device: str
) -> list[Named]:
    """Members, and prefixes under each aggregation, of several files or of one ensemble file. Members are loaded once.

    Args:
        model: files of members in order, or one ensemble file.
        aggregations: default: that of the ensemble file; soft voting.
        sizes: of the prefixes; 1 is the members. Default: all.
        device: where members are loaded to.
    """
    paths = [model_file(one) for one in ([model] if isinstance(model, str | Path) else model)]
    details: dict[str, Any] = {}
    if len(paths) == 1 and paths[0].suffix == ".json":
        content = ensemble_file.read(paths[0])
        ensembles.load_model(paths[0])  # members that were changed since are refused
        kind = AGGREGATIONS.find(content.aggregation)
        if not issubclass(kind, Ensemble):
            raise InputError(f"--each is for ensembles, and {paths[0]} is one classifier ({content.aggregation})")
        paths, details = content.members, content.details
        aggregations = aggregations or [AggregationChoice(content.aggregation, content.options)]
    if len(paths) < 2:
        raise InputError("--each is for ensembles: give several --model, or one ensemble file (.json)")
    wanted = range(1, len(paths) + 1) if sizes is None else sizes
    for size in wanted:
        if not 1 <= size <= len(paths):
            raise InputError(f"sizes must be between 1 and the {len(paths)} members, got {size}")
    members = [_shared(ensembles.load_model(path, device)) for path in paths]
    found = [
        Named(f"member-{number}", one, (path,))
        for number, (one, path) in enumerate(zip(members, paths, strict=True), 1)
    ]
    found = found if 1 in wanted else []
    for choice in aggregations or [AggregationChoice()]:
        for size in [size for size in wanted if size > 1]:
            options = choice.of_first(size)
            if options is not None:
                found.append(_aggregated(choice, options, members[:size], paths[:size], details))
    if len({one.name for one in found}) < len(found):
        raise InputError("an --aggregation is given twice; leave one out")
    return found


def _shared(member: Checkpoint) -> Checkpoint:
    """As ensembles hold it, so that all hold the same one."""
    return replace(member, model=in_own_precision(member.model))


def _aggregated(
    choice: AggregationChoice,
    options: Mapping[str, Any],
    members: Sequence[Checkpoint],
    paths: Sequence[Path],
    details: Mapping[str, Any],
) -> Named:
    whole = ensemble_file.together(members, paths, choice.name, options)
    if not isinstance(whole.model, Ensemble):
        raise InputError(f"--aggregation {choice.name} makes one classifier of its parts; --each is for ensembles")
    held = sorted({*whole.details.get("held_out", ()), *details.get("held_out", ())})
    more = dict(details) | ({"held_out": held} if held else {})
    whole = replace(whole, details=whole.details | more)
    name = f"{choice.label}-{len(members)}"
    return Named(name, whole, tuple(paths), choice.name, options, tuple(members), details)
