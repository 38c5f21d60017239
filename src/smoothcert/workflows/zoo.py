"""The packaged models, with what their own records say of them."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from smoothcert.analysis import acr_interval, average_certified_radius, certified_accuracy, read
from smoothcert.models.zoo import ZooModel, zoo, zoo_model
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.stats.rounding import down, up


def in_full(name: str) -> dict[str, Any]:
    """The card of one model, where its files lie, and the numbers that follow from its records."""
    model = zoo_model(name)
    return {"name": model.name, "file": str(model.file), "run": str(model.run)} | model.card | _numbers(model)


def all_in_full() -> list[dict[str, Any]]:
    """Every model, as `in_full`."""
    return [in_full(name) for name in zoo()]


def table() -> FittingTable:
    """A line per model."""
    found = all_in_full()
    columns = {
        "noise": [f"{one['noise']['name']} {one['noise']['sigma']:g}" for one in found],
        "ACR": [down(one["acr"], 4) for one in found],
        "95% interval": [f"{down(low, 4)}-{up(high, 4)}" for low, high in (one["acr_interval"] for one in found)],
        "right, radius > 0": [f"{100 * one['certified_accuracy_at_0']:.1f}%" for one in found],
        "images": [str(one["inputs"]) for one in found],
        "draws": [str(one["draws_per_input"]) for one in found],
    }
    return FittingTable(
        [Text(f"zoo:{one['name']}\n{one['about']}") for one in found],
        [Column(title, [Text(cell) for cell in cells]) for title, cells in columns.items()],
        caption="From the records that come with each model. Check them: smoothcert zoo NAME says how.",
        sections=True,
    )


def _numbers(model: ZooModel) -> dict[str, Any]:
    records = read(model.run).records
    interval = acr_interval(records, seed=0)
    return {
        "inputs": len(records),
        "draws_per_input": max(record.draws or 0 for record in records),  # fewer where `Evaluate` gave up
        "acr": average_certified_radius(records),
        "acr_interval": [interval.low, interval.high],
        "certified_accuracy_at_0": float(certified_accuracy(records, [0.0])[0]),
        "verify": " ".join(["smoothcert verify", str(model.run), f"--model zoo:{model.name}", *_needed(model)]),
    }


def _needed(model: ZooModel) -> list[str]:
    """Options besides: where the images are, if they do not come with the package."""
    return [model.card["verify_with"]] if "verify_with" in model.card else []
