"""The command that makes a run again, from its configuration."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.runs import ModelConfig, RoutingConfig

# Of a procedure, in the words of the command line.
RENAMED = {"most": "n", "inverse_temperature": "inverse-temperature", "runner_up": "runner-up"}


def certify_command(name: str, settings: Settings) -> str:
    """`smoothcert certify ...` with every setting spelled out, or "" for what that command did not make.

    A run names neither folders nor paths, so that it can be moved: the reader brings the model file and the data.
    """
    model, data, noise, procedure = settings.model, settings.data, settings.noise, settings.procedure
    if model is None or not (model.files or settings.routing) or data is None or noise is None or procedure is None:
        return ""
    try:
        drawn = Noise.from_description(noise)
        words = ["smoothcert", "certify", *_models(model, settings.routing)]
        words += [word for plugin in settings.plugins or () for word in ("--plugin", plugin.file)]
        words += ["--data", data.name, "--split", data.split]
        words += _options({name: value for name, value in (data.preprocessing or {}).items() if name != "filter"})
        words += [] if data.label_column is None else ["--label-column", data.label_column]
        words += [*_options(vars(data.subset)), "--noise", drawn.name]
        if settings.routing is None:
            words += ["--strength", _text(getattr(drawn, drawn.strength_name))]
        else:
            words += _router(settings.routing, drawn.strength_name)
        words += [*_options(drawn.options()), *_search(settings.sigma_search), *_weights(settings.classifier or {})]
        # Of a router and its members the members are said: one --batch-size, and one --backend, goes for all.
        classifier = settings.classifier or {}
        words += _running(classifier if settings.routing is None else next(iter(classifier["members"].values())), model)
        words += [*_procedure(procedure), "--seed", _text(settings.seed)]
    except (KeyError, TypeError, InputError):
        return ""
    out = f"{name.rsplit('/', 1)[-1]}-again"
    memory = ["--memory", f"{out}.sqlite"] if settings.memory is not None else []  # a new one: order and content matter
    return shlex.join([*map(str, words), *memory, "--out", out])


def verify_command(name: str, settings: Settings) -> str:
    """`smoothcert verify ...` of the run, with its model where that is a file; "" for what is no run."""
    if settings.procedure is None or settings.source is not None:
        return ""
    try:
        models = [] if settings.model is None else _models(settings.model, settings.routing)
    except InputError:
        models = []
    plugins = [word for plugin in settings.plugins or () for word in ("--plugin", plugin.file)]
    return shlex.join(["smoothcert", "verify", name.rsplit("/", 1)[-1], *models, *plugins])


def _models(model: ModelConfig, routing: RoutingConfig | None) -> list[str]:
    """The model, or a router and its members."""
    if routing is None:
        return [word for file in model.files for word in ("--model", file)]
    if not routing.router.files or not all(member.files for member in routing.members):
        raise InputError("the router or a member came from no file")
    members = zip(routing.strengths, routing.members, strict=True)
    return ["--router", *routing.router.files] + [
        word for strength, member in members for file in member.files for word in ("--model", f"{strength}={file}")
    ]


def _router(routing: RoutingConfig, strength_name: str) -> list[str]:
    """What is said of a router beside its file."""
    words = ["--router-sigma", _text(routing.noise[strength_name])]
    levels = [part["alpha"] for part in (routing.router_procedure, routing.member_procedure)]
    return words + ([] if levels[0] == levels[1] else ["--router-share", _text(levels[0] / sum(levels))])


def _running(classifier: Mapping[str, Any], model: ModelConfig) -> list[str]:
    """How the model is run: on another device, by another backend or in another batch it is another classifier."""
    backend = classifier["backend"]
    words = ["--device", classifier["device"], "--backend", backend["name"], "--batch-size", classifier["batch"]]
    # A model that int8 could not run was run by eager, which takes no calibration.
    return [*words, "--calibration", str(model.calibration)] if "calibration" in backend else words


def _search(search: Mapping[str, Any] | None) -> list[str]:
    if search is None:
        return []
    given = {f"sigma-{name}": search[name] for name in ("steps", "draws", "lr", "span") if name in search}
    return ["--sigma-per-input", search["name"], *_options(given)]


def _weights(classifier: Mapping[str, Any]) -> list[str]:
    own = dict(classifier.get("own_weights", {}))
    return (
        ["--weights-per-input", own.pop("name"), *_options({f"weights-{k}": v for k, v in own.items()})] if own else []
    )


def _procedure(procedure: Mapping[str, Any]) -> list[str]:
    options = {
        RENAMED.get(key, key): value for key, value in procedure.items() if key not in ("name", "pilot", "bound")
    }
    bound: dict[str, Any] = dict(procedure.get("bound", {}))
    if bound:
        options["bound"] = bound.pop("name")
        options |= {RENAMED.get(key, key): value for key, value in bound.items()}
    if isinstance(options.get("stages"), list):
        options["stages"] = ",".join(map(str, options["stages"]))
    return ["--procedure", str(procedure["name"]), *_options(options)]


def _options(values: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for key, value in values.items():
        if value is True:
            words.append(f"--{key}")
        elif isinstance(value, list):
            words += [word for one in value for word in (f"--{key}", _text(one))]
        elif value is not None and value is not False:
            words += [f"--{key}", _text(value)]
    return words


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
