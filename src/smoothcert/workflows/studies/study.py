"""The file of a study: what a paper's table has in its rows, how each is made, at which scale, and what was published.

TOML, in `tables/` or anybody's own. Accuracies are in percent. A file that cannot be is refused in one sentence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from smoothcert.core.described import from_json, parse
from smoothcert.core.errors import InputError

TABLES = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Published:
    """What the paper prints in a row: ACR, certified accuracy in percent at the study's radii, and other columns.

    An accuracy that the paper does not print, or that cannot be read, is "-".
    """

    acr: float | None = None
    accuracy: tuple[float | str, ...] = ()
    more: Mapping[str, str | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for share in self.accuracy:
            if share != "-" and (isinstance(share, str) or not 0 <= share <= 100):
                raise InputError(f'a published accuracy must be a percentage, or "-" for none, got {share!r}')


@dataclass(frozen=True)
class Search:
    """A strength of the noise for each input: `SearchChoice`."""

    method: str
    steps: int | None = None
    draws: int | None = None
    lr: float | None = None
    span: float | None = None


@dataclass(frozen=True)
class OwnWeights:
    """Weights of an ensemble for each input: `WeightsChoice`."""

    method: str
    draws: int | None = None
    copies: int | None = None


@dataclass(frozen=True)
class Certification:
    """How rows are certified, and on which inputs: as the options of `smoothcert certify` with these names."""

    procedure: str = "fixed"
    n: int | None = None
    n0: int | None = None
    alpha: float = 0.001
    beta: float | None = None
    radius: tuple[float, ...] = ()
    stages: str | None = None
    bound: str | None = None
    start: int = 0
    every: int = 1
    limit: int | None = None
    noise: str = "gaussian"
    values: int | None = None
    backend: str = "eager"
    search: Search | None = None
    own_weights: OwnWeights | None = None
    memory: bool = False
    seed: int = 0

    def changed(self, changes: Mapping[str, Any], where: str) -> Certification:
        """With other values, by name."""
        known = {f.name for f in fields(self)}
        for key in changes:
            if key not in known:
                raise InputError(f"{where} has {key!r}, which is no option of certify; there are {', '.join(known)}")
        hints = from_json(Certification, dict(changes), where)
        return replace(self, **{key: getattr(hints, key) for key in changes})


@dataclass(frozen=True)
class Members:
    """Networks that are trained by one recipe with several seeds."""

    method: str
    seeds: tuple[int, ...] = (0,)
    network: str = ""  # other than that of the recipe
    set: tuple[str, ...] = ()  # as of `smoothcert train --set`
    sigma: float | None = None  # of training; None: that of the row


@dataclass(frozen=True)
class Cell:
    """A row of the table: networks by a recipe, alone or as an ensemble, and how they are certified.

    Args:
        name: of the row.
        sigma: strength of the noise, in training and in certificates.
        method, seeds, network, set: of the networks. Without an aggregation each seed is certified by itself, and the
            row is the mean over them.
        members: of an ensemble of several kinds, instead of `method`.
        aggregation: as of `certify --each`, with options: `consensus:k=5`. Empty: none.
        groups: so many ensembles of equally many members each, in the order of the members; the row is their mean.
        weights: how weights of the aggregation are found: radius, signed (of logits, by the radius, perhaps below 0),
            convex, sgd or minimum-variance. Empty: equal.
        rank: whether members are ordered by accuracy under noise first.
        routes: what a router chooses between, each with its own sigma and, with several seeds, voting softly. The
            router itself is trained by `method`, and `sigma` is that of its noise.
        neighbours: training inputs that each label of the router is settled with, as of `train --label-neighbours`.
        model: a file or zoo:NAME instead of a training.
        envelope: names of other rows, instead of networks: the largest of each number (UE), whichever row has it.
        oracle: names of other rows, instead of networks: for each input the best of them, which no classifier is.
        baseline: the row that this one is compared with. Empty: that of the study.
        certify: what is other than in the rest of the study.
        only: the scales that have this row. Empty: all.
        published: what the paper has.
    """

    name: str
    sigma: float = 0.0
    method: str = ""
    seeds: tuple[int, ...] = (0,)
    network: str = ""
    set: tuple[str, ...] = ()
    members: tuple[Members, ...] = ()
    aggregation: str = ""
    groups: int = 1
    weights: str = ""
    rank: bool = False
    routes: tuple[Members, ...] = ()
    neighbours: int | None = None
    model: str = ""
    envelope: tuple[str, ...] = ()
    oracle: tuple[str, ...] = ()
    baseline: str = ""
    certify: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    published: Published | None = None

    def __post_init__(self) -> None:
        if sum(map(bool, (self.method, self.members, self.model, self.best_of))) != 1:
            raise InputError(f"the row {self.name!r} needs one of method, members, model, envelope and oracle")
        if not self.best_of and self.sigma <= 0:
            raise InputError(f"the row {self.name!r} needs a sigma above 0, got {self.sigma}")
        if (self.weights or self.rank or self.groups > 1) and not self.aggregation:
            raise InputError(
                f"the row {self.name!r} has weights, an order or groups; say the aggregation, as soft-voting"
            )
        count = sum(len(some.seeds) for some in self.all_members)
        if self.groups < 1 or count % self.groups:
            raise InputError(f"the row {self.name!r} has {count} members, which are not {self.groups} equal groups")
        if self.routes and (not self.method or len(self.seeds) > 1 or any(one.sigma is None for one in self.routes)):
            raise InputError(
                f"the row {self.name!r} has routes: it needs a method and one seed for its router, and a sigma for each"
            )
        if self.neighbours is not None and not self.routes:
            raise InputError(f"the row {self.name!r} has neighbours, which go with routes; leave them out")

    @property
    def best_of(self) -> tuple[str, ...]:
        """The rows that it is the best of, if it is that."""
        return self.envelope + self.oracle

    @property
    def all_members(self) -> tuple[Members, ...]:
        """The kinds of networks in it; none where a model is given."""
        if self.model or self.best_of:
            return ()
        return self.members or (Members(self.method, self.seeds, self.network, self.set),)


@dataclass(frozen=True)
class Scale:
    """How large the study is done: on which data, by which recipes, with how many draws.

    Args:
        recipe: name of recipes, with {method} and {sigma} in it: cifar10-resnet20-{method}-{sigma}-fast.
        data: that networks are trained on and certified.
        methods: what a method of a row is called in these recipes, where it is another name.
        networks: which network stands for one of the paper's.
        set: values of all recipes that are other ones.
        epochs: of all recipes, where other than theirs.
        certify: what is other than in the rest of the study.
        most_members: rows with more members are left out.
    """

    recipe: str
    data: str
    about: str = ""
    methods: Mapping[str, str] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    set: tuple[str, ...] = ()
    epochs: int | None = None
    certify: Mapping[str, Any] = field(default_factory=dict)
    most_members: int | None = None


@dataclass(frozen=True)
class Study:
    """A table: its rows, the radii of its columns, the scales that it can be done at, and where it comes from.

    Args:
        title: in a few words.
        citation: paper and number of the table.
        radii: of the columns.
        scale: by name; the first is the default.
        cell: the rows.
        baseline: the row that others are compared with, paired by image; one for each sigma if {sigma} is in it.
        certify: of all rows.
        notes: what a reader must know: departures from the paper, what cannot be done.
    """

    title: str
    citation: str
    radii: tuple[float, ...]
    scale: Mapping[str, Scale]
    cell: tuple[Cell, ...]
    baseline: str = ""
    certify: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        names = [cell.name for cell in self.cell]
        if not names or not self.scale:
            raise InputError("a study needs at least one [[cell]] and one [scale.NAME]")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"two rows are called {twice!r}; give each its own name")
        for cell in self.cell:
            strange = [name for name in cell.only if name not in self.scale]
            if strange:
                raise InputError(
                    f"the row {cell.name!r} is for the scale {strange[0]!r}, which the study does not have"
                )
            unknown = [name for name in cell.best_of if name not in names]
            if unknown:
                raise InputError(f"the row {cell.name!r} is the best of {unknown[0]!r} and others, which is no row")
            if cell.baseline and cell.baseline not in names:
                raise InputError(f"the row {cell.name!r} is compared with {cell.baseline!r}, which is no row")
            if cell.published is not None and len(cell.published.accuracy) > len(self.radii):
                raise InputError(f"the row {cell.name!r} has more accuracies than the study has radii")

    def at(self, scale: str | None) -> tuple[str, Scale]:
        """A scale by its name; the first one without."""
        chosen = scale or next(iter(self.scale))
        if chosen not in self.scale:
            raise InputError(f"--scale of {self.name} must be {', '.join(self.scale)}, got {chosen!r}")
        return chosen, self.scale[chosen]


def study_names() -> list[str]:
    """The studies that come with the package: of each paper in the order of its tables."""

    def order(name: str) -> tuple[str, int, str]:
        paper, _, number = name.partition("-")
        return paper, int(number) if number.isdigit() else 0, number

    return sorted((path.stem for path in TABLES.glob("*.toml")), key=order)


def load_study(source: str | Path) -> Study:
    """A study by its name, or from a TOML file."""
    path = Path(source)
    if path.suffix != ".toml":
        path = TABLES / f"{source}.toml"
        if str(source) not in study_names():
            raise InputError(f"there is no study {str(source)!r}; smoothcert study lists them, or give a file.toml")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"the study {path} does not exist") from None
    except OSError as error:
        raise InputError(f"the study {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    try:
        if "name" in content:
            raise InputError("the name of a study is that of its file; leave name out")
        study: Study = parse(Study, content, "the study")
        scales, cells = study.scale.values(), study.cell
        for place in [study.certify, *(one.certify for one in scales), *(one.certify for one in cells)]:
            Certification().changed(place, "certify")
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    return replace(study, name=path.stem)
