"""What can be trained: the papers' recipes, and those of plug-ins."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.training.recipes import RECIPES, Recipe, find
from smoothcert.training.recipes.build import change


def matching(name: str | None) -> list[Recipe]:
    """The recipes with that part in their names, or of that pattern, such as `mnist*macer*`; none is refused."""
    pattern = name if name and "*" in name else f"*{name or ''}*"
    return [recipe for known, recipe in RECIPES.items() if fnmatch.fnmatchcase(known, pattern)] or [find(name or "")]


def adapted(
    recipe: str | Recipe, changes: Sequence[str] = (), *, epochs: int | None = None, accumulate: int | None = None
) -> Recipe:
    """A recipe with other values: `lr=0.05`, `objective.lam=6`, ...; other epochs; or a batch in several passes.

    Passes save memory: `accumulate` is short for a `chunk` of that part of a batch.
    """
    chosen = find(recipe) if isinstance(recipe, str) else recipe
    chosen = change(chosen, [*changes, *([] if epochs is None else [f"epochs={epochs}"])])
    if accumulate is None:
        return chosen
    if any(one.startswith("chunk=") for one in changes):
        raise InputError("--accumulate and --set chunk say the same thing; leave one out")
    batch = chosen.batch_size
    if not 1 <= accumulate <= batch:
        raise InputError(f"--accumulate must be at least 1 and at most the {batch} inputs of a batch, got {accumulate}")
    return change(chosen, [f"chunk={-(-batch // accumulate)}"])


def in_full(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe, JSON-able, with what it costs."""
    return {**recipe.to_json(), "passes": recipe.passes, "core_hours": recipe.core_hours}
