"""Sweeps: every row of a study with each of several values, for a table of what a value does (an ablation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smoothcert.core.errors import InputError
from smoothcert.workflows.studies.study import Cell, Study


def swept(study: Study, sweeps: Sequence[str]) -> Study:
    """The study with every trained row once per value, each sweep as `objective.lam=1,2,4`; several multiply.

    Keys are those of `smoothcert train --set`; of a row with a router they are the router's. Rows of the first value
    are what the others are compared with. Rows that train nothing stay as they are, and the best of several rows, which
    are there no more, go.
    """
    for text in sweeps:
        key, found, given = text.partition("=")
        # A list is one value.
        values = [given] if given.startswith("[") else [part.strip() for part in given.split(",")]
        if not found or not all(values):
            raise InputError(f"--set takes key=value or key=value,value,..., as in objective.lam=1,2,4, got {text!r}")
        cells = [
            one
            for cell in study.cell
            if not cell.best_of
            for one in ([cell] if cell.model else [_changed(cell, f"{key}={value}") for value in values])
        ]
        baseline = study.baseline and f"{study.baseline}, {key}={values[0]}"
        study = replace(study, cell=tuple(cells), baseline=baseline, name=f"{study.name} with {text}")
    return study


def _changed(cell: Cell, change: str) -> Cell:
    members = tuple(replace(some, set=(*some.set, change)) for some in cell.members)
    name = f"{cell.name}, {change}"
    return replace(cell, name=name, set=(*cell.set, change), members=members, baseline="", published=None)
