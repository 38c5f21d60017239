"""From results to the model of a page: plain JSON with every number that the page shows or counts.

What is a claim is rounded down here, or floored by the script from exact counts; radii stay in full precision, because
the reader may pick any radius.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import smoothcert
from smoothcert.analysis.hardness import LEVELS, lower_bounds
from smoothcert.analysis.measures import Interval, Share, asked_shares, asked_up_to, certified_shares, right
from smoothcert.analysis.results import LOG, Results
from smoothcert.analysis.summary import Row, summarise, usual_radii
from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.present.hardness_table import hardness_cells
from smoothcert.present.report.about import About, about_json
from smoothcert.present.report.beside import beside, procedure_words
from smoothcert.present.report.pictures import Pictures
from smoothcert.present.tables import RADIUS_DIGITS, percent_ends, radius_ends
from smoothcert.procedures import Certificate, Scope
from smoothcert.procedures.certificate import INCLUSIVE
from smoothcert.runs import Record
from smoothcert.stats.rounding import down, nearest, percent

MOST_RADII = 6  # columns of a table that a laptop shows without scrolling
USUAL_PICK = 0.5
BOUND_DIGITS = 4  # of p_A, on the page
NORMS = {"l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞"}
CLAIMS = {
    Scope.FIXED: "The certificates are about one fixed smoothed classifier.",
    Scope.MEMORY: "The certificates hold for the classifier that answers through its memory.",
    Scope.OWN: "Each certificate is about its input's own classifier.",
}
MIXED_CLAIMS = "The certificates are about different classifiers: see the warnings."
LOG_CLAIMS = "A public log: its claims are its author's, and it holds neither votes nor a confidence level."
ORACLE_CLAIMS = "An oracle: it picks models knowing the truth. No classifier does that; nothing is claimed."
REPEATED = ("note", "fixed_draws")  # settings that the page shows elsewhere


@dataclass(frozen=True)
class Ahead:
    """By how much the first result's ACR is ahead of another one, paired by input: the number, its text, 95% ends."""

    value: float
    text: str
    low: str
    high: str


def page_model(
    results: Sequence[Results],
    *,
    images: Mapping[str, Mapping[int, npt.NDArray[np.uint8]]],
    class_names: Mapping[str, Sequence[str]],
    radii: Sequence[float] | None,
    command: str,
    about: Mapping[str, About],
    published: Mapping[str, Ahead | None],
) -> dict[str, Any]:
    """Everything that the page shows."""
    if len({result.name for result in results}) < len(results):
        raise InputError("results must have different names: a reader could not tell them apart")
    if radii is not None and not radii:
        raise InputError("radii must hold at least one radius for the table")
    chosen = usual_radii(results, MOST_RADII) if radii is None else sorted({float(r) for r in radii})
    summary = summarise(results, chosen)
    pictures = Pictures()
    unit = "images" if any(images.get(result.name) for result in results) else "inputs"
    scale = _scale(results, summary.radii)
    picked = _picked(summary.radii, whole=scale["step"] == 1)
    runs = [
        _run(result, row, picked, unit, results[:number])
        | _inputs(result, images.get(result.name, {}), pictures, class_names)
        | about_json(result, about.get(result.name, About()), pictures)
        | (_published(row, published[result.name]) if result.name in published else {})
        for number, (result, row) in enumerate(zip(results, summary.rows, strict=True))
    ]
    return {
        "version": smoothcert.__version__,
        "command": command,
        "unit": unit,
        "radii": list(summary.radii),
        "picked": picked,
        "scale": scale,
        "warnings": list(summary.warnings),
        "runs": runs,
        "pictures": pictures.uris,
    }


def _picked(radii: Sequence[float], *, whole: bool) -> float:
    """The radius that the page opens with: 0.5, the papers' favourite, else a middle one of the table."""
    return USUAL_PICK if not whole and min(radii) <= USUAL_PICK <= max(radii) else radii[len(radii) // 2]


def _scale(results: Sequence[Results], radii: Sequence[float]) -> dict[str, float]:
    """How far the axis and the slider go, and the slider's step: three digits, or whole numbers for l0."""
    reached = [r.radius for result in results for r in result.records if right(r)]
    largest = max([*reached, *radii], default=0.0) or 1.0
    whole = bool(reached) and all(float(radius).is_integer() for radius in reached) and max(reached) > 0
    step = Fraction(1) if whole else Fraction(10) ** (math.floor(math.log10(largest)) - 2)
    return {"max": float(math.ceil(Fraction(largest) / step) * step), "step": float(step)}


def _run(result: Results, row: Row, picked: float, unit: str, earlier: Sequence[Results]) -> dict[str, Any]:
    """What is said about a run as a whole, beside those before it; `asked` is as far as it was asked, if not all."""
    alpha = _alpha(result)
    confidence = None if alpha is None else _plain(100 - 100 * Decimal(repr(alpha)))
    norm = NORMS.get(result.norm or "", result.norm or "")
    savings, limit = row.savings, asked_up_to(result.records)
    return {
        "name": result.name,
        "sentence": _sentence(result, picked, norm, confidence, unit),
        "asked": None if math.isinf(limit) else limit,
        "procedure": procedure_words(result.settings.procedure),
        "beside": beside(result, earlier),
        "norm": norm,
        "inclusive": result.norm == INCLUSIVE,
        "confidence": confidence,
        "alpha": None if alpha is None else _plain(Decimal(repr(alpha))),
        "claims": _claims(result),
        "note": row.note,
        "data": "" if (data := result.settings.data) is None else f"{data.name} {data.split}",
        "noise": row.noise,
        "inputs": row.inputs,
        "planned": row.planned,
        "subset": row.subset,
        "warnings": list(result.warnings),
        "acr": _number(row.acr, down(row.acr, RADIUS_DIGITS)) | _ends(row.acr_interval),
        "ahead": _number(None, ""),
        "accuracy": [_share(share) for share in row.accuracy],
        "abstained": _share(row.abstentions, ceiling=True),
        "draws": _number(row.mean_draws, "{:,.0f}"),
        "seconds": _number(row.mean_seconds, "{:.3g}"),
        "sampleRF": _factor(savings.sample_rf if savings else None),
        "timeRF": _factor(savings.time_rf if savings else None),
        "bands": _bands(result),
        "certainty": _certainty(result, row),
        "settings": list(_flat({k: v for k, v in result.settings.to_json().items() if k not in REPEATED})),
    }


def _published(row: Row, ahead: Ahead | None) -> dict[str, Any]:
    """What is another's: its ACR as published, and how far the first result is ahead."""
    acr = _number(row.acr, nearest(row.acr, RADIUS_DIGITS)) | _ends(row.acr_interval)
    return {"acr": acr} | ({} if ahead is None else {"ahead": asdict(ahead)})


def _certainty(result: Results, row: Row) -> dict[str, Any] | None:
    """How many inputs are hard, and the lower bound of p_A of each, ascending, rounded down."""
    found = row.hardness
    if found is None:
        return None
    *shares, median, hard_half = hardness_cells(found)
    ends = [percent_ends(share.interval) for share in found.below]
    return {
        "below": [
            {"p": level, "text": text, "low": low, "high": high}
            for level, text, (low, high) in zip(LEVELS, shares, ends, strict=True)
        ],
        "median": median,
        "hardHalf": hard_half,
        "bounds": [float(down(bound, BOUND_DIGITS)) for bound in lower_bounds(result).tolist()],
    }


def _sentence(result: Results, picked: float, norm: str, confidence: str | None, unit: str) -> str:
    """The headline where no script runs."""
    at = " ".join(filter(None, [norm, "radius", repr(picked).removesuffix(".0")]))
    (share,) = asked_shares(result.records, [picked])
    if share is None:
        return f"{result.name}: not asked about {at}"
    sure = "" if confidence is None else f" with {confidence}% confidence"
    return f"{result.name}: certified at {at}{sure}: {percent(share.value)}% of {share.total} {unit}"


def _alpha(result: Results) -> float | None:
    """The worst alpha of its certificates: what can be said of all of them."""
    known = [record.claim.alpha for record in result.records if record.claim is not None]
    return max(known, default=None)


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


def _claims(result: Results) -> str:
    if result.settings.oracle:
        return ORACLE_CLAIMS
    scopes = {record.claim.scope for record in result.records if record.claim is not None}
    if not scopes:
        source = result.settings.source
        return LOG_CLAIMS if source in (None, LOG) else f"{source}. {LOG_CLAIMS}"
    claims = CLAIMS[scopes.pop()] if len(scopes) == 1 else MIXED_CLAIMS
    return " ".join(filter(None, [claims, "" if result.settings.data is None else result.settings.data.prepared]))


def _number(value: float | None, text: str) -> dict[str, Any]:
    return {"value": value, "text": "" if value is None else text.format(value)}


def _factor(value: float | None) -> dict[str, Any]:
    return {"value": value, "text": "" if value is None else down(value, 1)}


def _ends(interval: Interval) -> dict[str, str]:
    return dict(zip(("low", "high"), radius_ends(interval), strict=True))


def _share(share: Share | None, *, ceiling: bool = False) -> dict[str, Any]:
    if share is None:
        return {"value": None, "text": "not asked"}
    low, high = percent_ends(share.interval)
    return {"value": share.value, "text": percent(share.value, ceiling=ceiling), "low": low, "high": high}


def _bands(result: Results) -> dict[int, list[float]]:
    """The 95% interval in percent, rounded outwards, of every count that the curve takes."""
    total = len(result.records)
    reached = [record.radius for record in result.records if right(record)]
    counts = {0, *(share.count for share in certified_shares(result.records, [0.0, *reached]))}
    return {count: [float(end) for end in percent_ends(Share(count, total).interval)] for count in sorted(counts)}


def _inputs(
    result: Results,
    images: Mapping[int, npt.NDArray[np.uint8]],
    pictures: Pictures,
    class_names: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The records by column, and the names of the classes that occur in them."""
    records = result.records
    votes = [None if r.certificate is None else _votes(r.certificate) for r in records]
    met = {r.label for r in records} | {r.prediction for r in records if not r.abstained}
    met |= {c for vote in votes if vote is not None for c in (vote[0], vote[2])}
    names = result.class_names or class_names.get(result.name, ())
    return {
        "classes": {c: names[c] if 0 <= c < len(names) else str(c) for c in sorted(met - {UNKNOWN})},
        "records": {
            "index": [r.index for r in records],
            "label": [r.label for r in records],
            "prediction": [r.prediction for r in records],
            "radius": [float(r.radius) for r in records],
            "draws": [r.draws for r in records],
            "votes": votes,
            "reason": ["" if r.certificate is None else r.certificate.reason for r in records],
            "picture": [_picture(r, images, pictures) for r in records],
        },
    }


def _picture(record: Record, images: Mapping[int, npt.NDArray[np.uint8]], pictures: Pictures) -> int | None:
    return pictures.add(images[record.index]) if record.index in images else None


def _votes(certificate: Certificate) -> list[int] | None:
    """[top class, its votes, runner-up, its votes, all votes] of the draws that decided; None where a router did."""
    if not certificate.answers:
        return None
    tally = list(certificate.tallies.values())[-1]
    if tally.num_classes < 2:
        return [tally.top, tally.votes[tally.top], tally.top, 0, tally.draws]
    first, second = tally.top, tally.runner_up
    return [first, tally.votes[first], second, tally.votes[second], tally.draws]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as lines: ("noise.sigma", "0.5")."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)
