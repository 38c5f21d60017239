"""What a page says of a run beside its records: how it was made, what an audit found, what noise looks like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.results import Results
from smoothcert.present.report.pictures import Pictures
from smoothcert.present.report.reproduce import certify_command, verify_command
from smoothcert.procedures import Scope
from smoothcert.stats.rounding import up

DISTANCE_DIGITS = 4


@dataclass(frozen=True)
class Example:
    """One input as it is, with noise as the classifier sees it, and moved by less than its radius; uint8 (C, H, W)."""

    index: int
    clean: npt.NDArray[np.uint8]
    noisy: npt.NDArray[np.uint8]
    moved: npt.NDArray[np.uint8] | None = None  # None: nothing is claimed about the input
    distance: float = 0.0  # from clean to moved, in the norm of the radius; below it


@dataclass(frozen=True)
class Audited:
    """What an audit found, in its own words."""

    holds: bool
    sentence: str
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class About:
    """Of one run. Everything may be missing; when and by which command is as the run says, and not proved.

    `model` is what commands call the model, where that is not the file that the run names: zoo:NAME.
    """

    when: str = ""
    command: str = ""
    audit: Audited | None = None
    examples: tuple[Example, ...] = ()
    model: str = ""


def about_json(result: Results, about: About, pictures: Pictures) -> dict[str, Any]:
    """For the page: plain JSON; distances rounded up, since less would be a larger claim."""
    audit, settings, model = about.audit, result.settings, result.settings.model
    if about.model and model is not None:
        model = replace(model, files=(about.model,))
        settings = replace(settings, model=model)
    return {
        "model": "" if model is None else ", ".join(model.files) or "a model in memory",
        "when": about.when,
        "typed": about.command,
        "command": certify_command(result.name, settings),
        "verify": verify_command(result.name, settings),
        "own": any(record.claim is not None and record.claim.scope is Scope.OWN for record in result.records),
        "audit": None
        if audit is None
        else {"holds": audit.holds, "sentence": audit.sentence, "findings": list(audit.findings)},
        "examples": [
            {
                "index": example.index,
                "clean": pictures.add(example.clean),
                "noisy": pictures.add(example.noisy),
                "moved": None if example.moved is None else pictures.add(example.moved),
                "distance": up(example.distance, DISTANCE_DIGITS),
            }
            for example in about.examples
        ],
    }
