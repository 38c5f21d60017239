"""Why a command cannot go on with a run: what differs, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smoothcert.core.described import plain, same
from smoothcert.runs.config import DataConfig, RunConfig

# Place in a configuration -> (what it is, the option that says it). The first place that differs is named.
WORDS = {
    "model.fingerprint": ("another model", "--model"),
    "model": ("the model {}", "--model"),
    "routing.noise": ("another noise of the router", "--router-sigma"),
    "routing.router_procedure": ("another share of alpha for the router", "--router-share"),
    "routing.router": ("another router", "--router"),
    "routing": ("another router, or other strengths", "--router"),
    "classifier.router": ("another router", "--router"),
    "classifier.members": ("other models", "--model"),
    "classifier.fingerprint": ("another model", "--model"),
    "classifier.kind": ("another model", "--model"),
    "classifier.backend.name": ("the backend {}", "--backend"),
    "classifier.backend.calibration": ("other calibration inputs", "--calibration"),
    "classifier.own_weights.name": ("weights per input by {}", "--weights-per-input"),
    "classifier.own_weights.draws": ("{} draws for the weights", "--weights-draws"),
    "classifier.own_weights.copies": ("{} copies of each member", "--weights-copies"),
    "classifier.own_weights.share": ("{} of the parameters perturbed", "--weights-share"),
    "classifier.own_weights.spread": ("perturbations of {}", "--weights-spread"),
    "classifier.own_weights": ("weights per input", "--weights-per-input"),
    "classifier.batch": ("the batch size {}", "--batch-size"),
    "classifier.device": ("the device {}", "--device"),
    "noise.name": ("{} noise", "--noise"),
    "noise.norm": ("radii in {}", "--norm"),
    "noise.grid": ("the grid {}", "--grid"),
    "noise.sigma": ("sigma {}", "--sigma"),
    "noise.half_width": ("half_width {}", "--sigma"),
    "noise.scale": ("scale {}", "--sigma"),
    "noise.keep": ("keep {}", "--sigma"),
    "noise.values": ("{} pixel levels", "--values"),
    "sigma_search.method": ("the search {}", "--sigma-per-input"),
    "sigma_search.name": ("the search {}", "--sigma-per-input"),
    "sigma_search.steps": ("{} steps of the search", "--sigma-steps"),
    "sigma_search.draws": ("{} draws per step of the search", "--sigma-draws"),
    "sigma_search.lr": ("a step of {} in the search", "--sigma-lr"),
    "sigma_search.span": ("a span of {} for the search", "--sigma-span"),
    "sigma_search": ("another search", "--sigma-per-input"),
    "procedure.name": ("the procedure {}", "--procedure"),
    "procedure.bound.inverse_temperature": ("the inverse temperature {}", "--inverse-temperature"),
    "procedure.bound": ("the bound {}", "--bound"),
    "procedure.most": ("n = {}", "--n"),
    "procedure.runner_up": ("runner_up = {}", "--runner-up"),
    "procedure": ("{place} = {}", "--{place}"),
    "seed": ("seed {}", "--seed"),
    "stream": ("draws by {}", "--noise"),
    "memory": ("another memory", "--memory"),
    "plugins": ("other plug-ins", "--plugin"),
    "attacks": ("other attacks", "--attack"),
    "radii": ("other radii", "--radii"),
    "steps": ("{} steps", "--steps"),
    "draws": ("{} draws behind a gradient", "--draws"),
    "votes": ("{} votes", "--votes"),
    "run": ("another run", "--run"),
    "indices": ("other inputs", "--limit"),
}
SOMETIMES = ("routing", "sigma_search", "classifier.own_weights", "memory", "plugins")  # what a run may do without
UNSET = object()


def refusal(path: Path, old: Any, new: Any) -> str:
    """One sentence: what the run in `path` was started with, what is asked for now, and the way out."""
    if isinstance(old, RunConfig) and isinstance(new, RunConfig):
        sentence = _other_data(old.data, new.data) or _other_inputs(old, new)
        if sentence:
            return f"{path} was started {sentence}"
    for place, was, now in _differences(plain(old), plain(new)):
        what, option = _words(place)
        if place in SOMETIMES and not was:
            return f"{path} was started without {option}. Give another --out, or leave {option} out"
        if place in SOMETIMES and not now:
            return f"{path} was started with {option}. Give another --out, or the old {option}"
        if "{}" not in what:
            return f"{path} was started with {what}. Give another --out, or the old {option}"
        return (
            f"{path} was started with {what.format(_value(was))}; this command asks for "
            f"{_value(now)}. Give another --out, or the old {option}"
        )
    return f"{path} was started with other settings. Give another --out, or the old settings"


def _other_data(old: DataConfig, new: DataConfig) -> str:
    if (old.name, old.split) != (new.name, new.split):
        option = "--data" if old.name != new.name else "--split"
        return (
            f"on {old.name} ({old.split}); this command asks for {new.name} ({new.split}). "
            f"Give another --out, or the old {option}"
        )
    if old.preprocessing != new.preprocessing:
        was, now = (config.preprocessing or "nothing" for config in (old, new))
        return (
            f"on images prepared by {_steps(was)}; this command asks for {_steps(now)}. Give another --out, or the old "
            "--resize and --crop"
        )
    if old.fingerprint != new.fingerprint or _same_plan_other_inputs(old, new):
        return f"on other data of the name {old.name}: they have changed since. Give another --out, or the old data"
    return ""


def _same_plan_other_inputs(old: DataConfig, new: DataConfig) -> bool:
    """Files of the same names and sizes whose pixels have changed, or are read otherwise here."""
    return old.subset == new.subset and old.inputs_digest != new.inputs_digest


def _steps(preprocessing: Mapping[str, str] | str) -> str:
    if isinstance(preprocessing, str):
        return preprocessing
    return ", ".join(f"{name} {value}" for name, value in preprocessing.items() if name != "filter")


def _other_inputs(old: RunConfig, new: RunConfig) -> str:
    options = [f"--{name}" for name in ("start", "every", "limit") if _part(old, name) != _part(new, name)]
    if old.indices == new.indices and not options:
        return ""
    was, now = _inputs(old), _inputs(new)
    if len(old.indices) == len(new.indices):
        was, now = f"{was}, from number {old.indices[0]} on", f"others, from number {new.indices[0]} on"
    else:
        now = str(len(new.indices))
    way = f"the old {' and '.join(options)}" if options else "the old inputs"
    return f"on {was}; this command asks for {now}. Give another --out, or {way}"


def _part(config: RunConfig, name: str) -> Any:
    return getattr(config.data.subset, name)


def _inputs(config: RunConfig) -> str:
    count = len(config.indices)
    return f"{count} input{'' if count == 1 else 's'} of {config.data.name}"


def _words(place: str) -> tuple[str, str]:
    """Of the nearest place above that has words; of none: the place itself."""
    parts = place.split(".")
    for end in range(len(parts), 0, -1):
        if (found := WORDS.get(".".join(parts[:end]))) is not None:
            named = parts[-1]
            return found[0].replace("{place}", named), found[1].replace("{place}", named.replace("_", "-"))
    return f"{place} {{}}", "settings"


def _value(value: Any) -> str:
    if value is UNSET or value is None:
        return "none"
    return str(value) if isinstance(value, str | int | float | bool) else "others"


def _differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every place where two JSON values differ: where it has words first, else in order."""
    found = list(_walk(old, new, place))
    known = list(WORDS)
    yield from sorted(found, key=lambda one: next((i for i, k in enumerate(known) if one[0].startswith(k)), len(known)))


def _walk(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _walk(old.get(key, UNSET), new.get(key, UNSET), f"{place}.{key}" if place else str(key))
    elif old is UNSET or new is UNSET or not same(old, new):
        yield place, old, new
