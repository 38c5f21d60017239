"""What a study comes to at a scale: which networks are trained, and which runs its rows are read from."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from smoothcert.core.described import plain
from smoothcert.core.errors import InputError
from smoothcert.training.recipes import RECIPES, Recipe
from smoothcert.workflows.recipes import adapted
from smoothcert.workflows.studies.study import Cell, Certification, Members, Scale, Study


@dataclass(frozen=True)
class Member:
    """A network: a recipe with a seed, or a file that is there."""

    recipe: Recipe | None
    seed: int
    folder: str  # below `trained`
    file: str = ""
    start: Member | None = None  # whose weights it goes on with, if its recipe tunes a trained model
    routes: tuple[tuple[float, tuple[Member, ...]], ...] = ()  # of a router: by strength, those who vote there
    neighbours: int | None = None  # of a router's labels; None: the default

    @property
    def first(self) -> tuple[Member, ...]:
        """What is trained before it."""
        return tuple(member for _, some in self.routes for member in some)

    @property
    def networks(self) -> tuple[Member, ...]:
        """What its recipes train, in order; a router is trained apart, after all of it."""
        return self.first or ((self,) if self.start is None else (self.start, self))

    def path(self, out: Path) -> Path:
        """Where its checkpoint is, or will be."""
        return Path(self.file) if self.recipe is None else out / "trained" / self.folder / "model.safetensors"


@dataclass(frozen=True)
class Row:
    """A row at a scale: its members in order, and how it is certified."""

    cell: Cell
    members: tuple[Member, ...]
    certification: Certification
    data: str

    @property
    def own_file(self) -> bool:
        """Whether the ensemble is settled by data first: an order, or weights."""
        return self.cell.rank or bool(self.cell.weights)

    @property
    def classifiers(self) -> list[tuple[tuple[Member, ...], str]]:
        """What is certified for it: the ensemble, or each member by itself."""
        if self.cell.aggregation:
            size = len(self.members) // self.cell.groups
            groups = [self.members[i : i + size] for i in range(0, len(self.members), size)]
            return [(group, self.cell.aggregation) for group in groups]
        return [((member,), "") for member in self.members]

    @property
    def slug(self) -> str:
        """Its name as that of a folder."""
        return re.sub("[^a-z0-9.=]+", "-", self.cell.name.lower()).strip("-") or "row"

    def digest(self, members: Sequence[Member]) -> str:
        """Of what is certified, and how: where that changes, so does the folder."""
        kind = (self.cell.sigma, self.cell.aggregation, self.cell.weights, self.cell.rank) if self.own_file else ()
        about = [[member.folder or member.file for member in members], plain(self.certification), self.data]
        return hashlib.sha256(json.dumps([*about, self.cell.sigma, *kind]).encode()).hexdigest()[:8]


@dataclass
class Pass:
    """Classifiers of the same members that are certified together: by one pass, if there are several."""

    members: tuple[Member, ...]
    row: Row  # says how
    wanted: list[tuple[int, str]] = field(default_factory=list)  # (size or, of one member, its place; aggregation)

    @property
    def alone(self) -> bool:
        """Whether there is no ensemble in it."""
        return len(self.members) == 1

    @property
    def folder(self) -> str:
        """Below `certified`: a name that tells it from all others."""
        return f"{self.row.slug}-{self.row.digest(self.members)}"


@dataclass(frozen=True)
class Plan:
    """A study at a scale: the rows it has there, the networks, and the passes of certification."""

    study: Study
    scale: str
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]  # rows, with the reason
    envelopes: tuple[Cell, ...] = ()  # and oracles

    @property
    def trainings(self) -> dict[str, tuple[Recipe, list[int]]]:
        """Seeds of each recipe, by folder; what others go on with comes first."""
        found: dict[str, tuple[Recipe, list[int]]] = {}
        for member in (one for row in self.rows for known in row.members for one in known.networks):
            if member.recipe is not None:
                _, seeds = found.setdefault(member.folder.rpartition("/")[0], (member.recipe, []))
                if member.seed not in seeds:
                    seeds.append(member.seed)
        return found

    def start_of(self, folder: str) -> Member | None:
        """What the network of that folder goes on with."""
        return next((one.start for row in self.rows for one in row.members if one.folder == folder), None)

    @property
    def routers(self) -> list[Member]:
        """Each once; they are trained after the others."""
        found: list[Member] = []
        for member in (member for row in self.rows for member in row.members if member.routes):
            if member not in found:
                found.append(member)
        return found

    def passes(self) -> list[Pass]:
        """Rows whose members are the first ones of a larger ensemble's share its pass, if their settings are the same.

        Only procedures with the same draws for all can share them.
        """
        shared = [row for row in self.rows if shares(row)]
        wants = [(members, aggregation, row) for row in shared for members, aggregation in row.classifiers]
        found: list[Pass] = []
        for members, aggregation, row in sorted(wants, key=lambda want: -len(want[0])):
            place = next((p for p in found if fits(p, members, row)), None)
            if place is None:
                place = Pass(members, row)
                found.append(place)
            number = len(members) if aggregation else place.members.index(members[0]) + 1
            if (number, aggregation) not in place.wanted:
                place.wanted.append((number, aggregation))
        return found


def shares(row: Row) -> bool:
    """Whether its draws can be those of other rows, too."""
    how = row.certification
    own = how.search is not None or how.own_weights is not None or how.memory or row.own_file
    return how.procedure == "fixed" and not own and not row.cell.routes


def fits(one: Pass, members: tuple[Member, ...], row: Row) -> bool:
    """Whether classifiers of these members can be certified in that pass."""
    same = (one.row.certification, one.row.data, one.row.cell.sigma) == (row.certification, row.data, row.cell.sigma)
    there = members == one.members[: len(members)] or (len(members) == 1 and members[0] in one.members)
    return same and there


def plan(study: Study, scale: str | None = None) -> Plan:
    """What the study comes to at a scale; recipes and networks that do not exist are refused by the name of the row."""
    name, at = study.at(scale)
    rows: list[Row] = []
    envelopes: list[Cell] = []
    left_out: list[str] = []
    for cell in study.cell:
        if cell.only and name not in cell.only:
            left_out.append(f"{cell.name}: only at the scale {' and '.join(cell.only)}")
            continue
        size = sum(len(members.seeds) for members in cell.all_members)
        size //= cell.groups
        if at.most_members is not None and cell.aggregation and size > at.most_members:
            left_out.append(f"{cell.name}: {size} members, and the scale {name} has at most {at.most_members}")
            continue
        try:
            if cell.best_of:
                envelopes.append(cell)
            else:
                rows.append(_row(study, cell, at))
        except InputError as error:
            raise InputError(f"{study.name}, row {cell.name!r} at the scale {name}: {error}") from None
    if not rows:
        raise InputError(f"{study.name} has no row at the scale {name}; take another --scale")
    there = {row.cell.name for row in rows}
    left_out += [
        f"{cell.name}: not all rows that it is the best of" for cell in envelopes if not there >= {*cell.best_of}
    ]
    whole = tuple(cell for cell in envelopes if there >= {*cell.best_of})
    return Plan(study, name, tuple(rows), tuple(left_out), whole)


def _row(study: Study, cell: Cell, scale: Scale) -> Row:
    how = Certification()
    for changes in (study.certify, scale.certify, cell.certify):
        how = how.changed(changes, "certify")
    if cell.model:
        return Row(cell, (Member(None, 0, "", cell.model),), how, scale.data)
    members = tuple(member for some in cell.all_members for member in _members(some, cell.sigma, scale))
    if cell.routes:
        members = (_router(members[0], cell, scale),)
    return Row(cell, members, how, scale.data)


def _router(plain: Member, cell: Cell, scale: Scale) -> Member:
    """The network as a router of these routes, in a folder of its own."""
    routes = tuple(
        sorted((some.sigma, tuple(_members(some, some.sigma, scale))) for some in cell.routes if some.sigma is not None)
    )
    about = [[(sigma, [member.folder for member in some]) for sigma, some in routes], cell.neighbours]
    digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:8]
    recipe, _, seed = plain.folder.rpartition("/")
    return replace(plain, folder=f"{recipe}-router-{digest}/{seed}", routes=routes, neighbours=cell.neighbours)


def _members(some: Members, sigma: float, scale: Scale) -> list[Member]:
    recipe = recipe_of(some, sigma, scale)
    folder = _folder(recipe)
    if recipe.tunes is None:
        return [Member(recipe, seed, f"{folder}/seed{seed}") for seed in some.seeds]
    first = _at_scale(RECIPES.find(recipe.tunes), [*_network(some, scale), *scale.set], scale)
    starts = [Member(first, seed, f"{_folder(first)}/seed{seed}") for seed in some.seeds]
    return [Member(recipe, start.seed, f"{folder}/seed{start.seed}", start=start) for start in starts]


def _folder(recipe: Recipe) -> str:
    if RECIPES[recipe.name] == recipe:
        return recipe.name
    digest = hashlib.sha256(json.dumps(recipe.to_json(), sort_keys=True).encode()).hexdigest()
    return f"{recipe.name}-{digest[:8]}"


def recipe_of(some: Members, sigma: float, scale: Scale) -> Recipe:
    """The recipe of some members at a scale."""
    method = scale.methods.get(some.method, some.method)
    strength = sigma if some.sigma is None else some.sigma
    name = scale.recipe.format(method=method, sigma=f"{strength:.2f}")
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name}; smoothcert recipes lists them")
    return _at_scale(RECIPES[name], [*_network(some, scale), *scale.set, *some.set], scale)


def _network(some: Members, scale: Scale) -> list[str]:
    return [f"architecture={scale.networks.get(some.network, some.network)}"] if some.network else []


def _at_scale(recipe: Recipe, changes: list[str], scale: Scale) -> Recipe:
    """With other values, and the epochs of the scale: warm-ups and delays keep their share of the training."""
    epochs = None if any(change.startswith("epochs=") for change in changes) else scale.epochs
    if epochs is not None:
        late = {k: recipe.objective[k] for k in ("warmup", "deferred_until") if recipe.objective.get(k)}
        changes += [f"objective.{key}={round(value * epochs / recipe.epochs)}" for key, value in late.items()]
        changes += [] if recipe.ds2 is None else [f"ds2.start={round(recipe.ds2['start'] * epochs / recipe.epochs)}"]
    return adapted(recipe, changes, epochs=epochs) if changes or epochs is not None else recipe
