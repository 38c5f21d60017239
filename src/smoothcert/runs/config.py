"""Everything that decides what a run's records will be, typed and read once.

Two runs with equal configurations have equal records. When, where and by which command a run was made stands beside it
(`runs.made`). Descriptions of the noise, the procedure and the search stay as they were written, so that a run can be
tabulated without the plug-in that defines them; `built_noise` and `built_procedure` are the things themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smoothcert.core.described import IF_ANY, plain
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import Plugin
from smoothcert.core.secret import SecretKey
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import Procedure, Scope

DIGEST_BYTES = 16


@dataclass(frozen=True)
class SubsetConfig:
    """The inputs start, start + every, start + 2 * every, ..., at most `limit` of them."""

    start: int = 0
    every: int = 1
    limit: int | None = None

    def indices(self, size: int) -> range:
        """Which they are in a data set of `size` inputs."""
        if self.start < 0 or self.every < 1 or (self.limit is not None and self.limit < 1):
            raise InputError(f"a subset cannot start at {self.start}, take every {self.every} and end at {self.limit}")
        return range(self.start, size, self.every)[: self.limit]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which inputs are certified: of which data, and how many of the planned ones are different."""

    name: str
    split: str
    size: int  # inputs of the whole split
    fingerprint: str
    subset: SubsetConfig = field(default_factory=SubsetConfig)
    distinct: int  # of the planned inputs: equal inputs have equal noise and votes
    inputs_digest: str | None = None  # of the planned inputs as numbers, in order; the fingerprint may be of files
    preprocessing: Mapping[str, str] | None = None  # how image files were resized and cropped
    label_column: str | None = None  # of a table

    @property
    def prepared(self) -> str:
        """What was done to the pixels before they were certified, as a sentence; "" where nothing was."""
        if not self.preprocessing:
            return ""
        how = dict(self.preprocessing)
        kind = f" ({how.pop('filter')})" if "filter" in how else ""
        steps = ", ".join(f"{name} {value}{kind if name == 'resize' else ''}" for name, value in how.items())
        return f"The certificates are about the pixels after preparing the images ({steps}), not about their files."


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Where the classifier came from: nothing is known of a function that was handed over in Python."""

    files: tuple[str, ...] = ()  # without folders, so that a run can be moved
    architecture: Mapping[str, Any] | None = None
    fingerprint: str | None = None
    ensemble: Mapping[str, Any] | None = None
    calibration: str | None = None  # of int8, as NAME:split; which inputs they were is said by the classifier

    @property
    def members(self) -> int | None:
        """Of an ensemble; 1 for a single model, None where it is not said."""
        if self.ensemble is None:
            return 1
        members = self.ensemble.get("members")
        return members if type(members) is int and members >= 1 else None


@dataclass(frozen=True, kw_only=True)
class RoutingConfig:
    """Of a routed classifier: its router, its members by the strength of their noise, and who has which level.

    How each part is run is said by the classifier, under `router` and `members`.
    """

    noise: Mapping[str, Any]  # of the router
    stream: str  # of the router's draws
    strengths: tuple[float, ...]  # ascending: class k of the router stands for the k-th
    router_procedure: Mapping[str, Any]  # the run's with a part of its alpha
    member_procedure: Mapping[str, Any]  # the run's with the rest
    router: ModelConfig = field(default_factory=ModelConfig)
    members: tuple[ModelConfig, ...] = ()

    def __post_init__(self) -> None:
        if len(self.strengths) < 2 or list(self.strengths) != sorted(set(self.strengths)):
            raise InputError(f"a router needs at least two strengths, ascending, got {list(self.strengths)}")
        if len(self.members) != len(self.strengths):
            raise InputError(f"there are {len(self.strengths)} strengths and {len(self.members)} members")


@dataclass(frozen=True, kw_only=True)
class KeyConfig:
    """The secret that the seed of a service's run follows from (`core.secret`), revealed after its last draw."""

    hash: str  # as it was published before the first draw
    revealed: str  # the secret, in hexadecimal digits

    def holds(self, procedure: Mapping[str, Any], seed: int) -> bool:
        """Whether the secret has that hash, and the seed of this procedure follows from it."""
        try:
            key = SecretKey.from_hex(self.revealed)
        except InputError:
            return False
        return key.hash == self.hash and key.seed(procedure) == seed


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run certifies, and how."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    classifier: Mapping[str, Any]  # how what is sampled describes itself
    num_classes: int
    class_names: tuple[str, ...] = ()
    noise: Mapping[str, Any]
    sigma_search: Mapping[str, Any] | None = None  # None: one strength for all inputs, or a router chooses
    routing: RoutingConfig | None = field(default=None, metadata={"described": IF_ANY})
    procedure: Mapping[str, Any]
    seed: int
    stream: str  # how the random bits of a draw are made of the seed, the input and the purpose
    key: KeyConfig | None = None  # None: the seed was known to all
    memory: str | None = None  # id of the memory that the run answers through
    plugins: tuple[Plugin, ...] = ()
    indices: tuple[int, ...]  # the plan, in order
    labels: tuple[int, ...]  # the truth, one per planned input; UNKNOWN where nobody knows it

    def __post_init__(self) -> None:
        if not self.indices:
            raise InputError("no input is planned: a run needs at least one")
        if len(set(self.indices)) < len(self.indices):
            raise InputError("an input is planned twice")
        if len(self.labels) != len(self.indices):
            raise InputError(f"{len(self.indices)} inputs are planned with {len(self.labels)} labels")
        if self.num_classes < 2:
            raise InputError(f"num_classes must be at least 2, got {self.num_classes}")
        backend = self.classifier.get("backend", {})
        if not isinstance(backend, Mapping) or not isinstance(self.classifier.get("fingerprint", ""), str | None):
            raise InputError("the classifier must name its backend and its fingerprint")
        if self.routing is not None:
            self._check_routing(self.routing)

    def _check_routing(self, routing: RoutingConfig) -> None:
        router, members = self.classifier.get("router"), self.classifier.get("members")
        if not isinstance(router, Mapping) or not isinstance(members, Mapping):
            raise InputError("a routed classifier must name its router and its members")
        if list(members) != [repr(strength) for strength in routing.strengths]:
            raise InputError(f"the members are {', '.join(members)}, the strengths {list(routing.strengths)}")
        if self.sigma_search is not None or self.memory is not None:
            raise InputError("a routed classifier has no search for its noise, and no memory")

    @cached_property
    def digest(self) -> str:
        """What the first record is chained to: equal exactly for equal configurations."""
        return config_digest(plain(self))

    @cached_property
    def built_procedure(self) -> Procedure:
        """The procedure itself; refused where nothing describes itself like this."""
        return Procedure.from_description(self.procedure)

    @cached_property
    def built_noise(self) -> Noise:
        """The noise itself, or where the search for each input's begins; refused where none describes itself so."""
        return Noise.from_description(self.noise)

    @property
    def fixed_draws(self) -> int | None:
        """What `Fixed` would take per input for as much; None where the procedure is not known here."""
        asked = 1 if self.routing is None else 2  # a router, and the member that it chooses
        try:
            return asked * self.built_procedure.fixed_draws()
        except (InputError, ArithmeticError):
            return None

    @property
    def scope(self) -> Scope:
        """Which classifier the run's certificates speak about."""
        if self.memory is not None:
            return Scope.MEMORY
        return Scope.FIXED if self.sigma_search is None and self.own_weights is None else Scope.OWN

    @property
    def own_weights(self) -> Mapping[str, Any] | None:
        """How each input got its own weights of an ensemble; None: all have those of the ensemble."""
        found = self.classifier.get("own_weights")
        return found if isinstance(found, Mapping) else None

    @property
    def strength_name(self) -> str:
        """What the noise calls its strength: sigma, half_width, ..."""
        kind = NOISES.get(str(self.noise.get("name")))
        return "sigma" if kind is None else kind.strength_name

    def shared_noise(self, noise: Mapping[str, Any]) -> dict[str, Any]:
        """Of an input's noise what all share: not how far it is from the grid, nor a strength of its own."""
        one_for_all = self.sigma_search is None and self.routing is None
        own = {"offset"} if one_for_all else {"offset", self.strength_name}
        return {key: value for key, value in noise.items() if key not in own}

    @property
    def fingerprint(self) -> str | None:
        """Of the classifier; None for a function that has none."""
        found = self.classifier.get("fingerprint")
        return found if isinstance(found, str) else None

    @property
    def backend(self) -> str | None:
        """How the model is run."""
        name = self.classifier.get("backend", {}).get("name")
        return name if isinstance(name, str) else None

    @property
    def batch_size(self) -> int | None:
        """Rows per model call."""
        rows = self.classifier.get("batch")
        return rows if type(rows) is int else None

    @property
    def device(self) -> str | None:
        """Where the model was run."""
        name = self.classifier.get("device")
        return name if isinstance(name, str) else None

    @property
    def alpha(self) -> float | None:
        """The allowed probability of a false certificate."""
        alpha = self.procedure.get("alpha")
        return alpha if type(alpha) in (int, float) else None


def config_digest(content: Any) -> str:
    """The digest of a configuration as JSON has it: of its keys in order, without spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
