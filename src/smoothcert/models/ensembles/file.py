"""An ensemble on disk: `ensemble.json` names an aggregation, its options, and its members in order.

Members are model files or ensemble files, by a path relative to the file (packaged models as `zoo:NAME`) and by
fingerprint: one that was changed since is refused, and so is a file of which any byte was changed (it holds its own
digest). What is loaded is a `Checkpoint` like any other, so that whatever takes a model takes an ensemble.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file, write_whole
from smoothcert.core.sealed import BLANK, is_sealed, seal
from smoothcert.models import Architecture, Checkpoint, Format, Signature, fingerprint, formats
from smoothcert.models.ensembles.base import AGGREGATIONS, Aggregation
from smoothcert.models.ensembles.denoised import Denoised
from smoothcert.models.ensembles.mirrored import Mirrored
from smoothcert.models.ensembles.voting import SoftVoting
from smoothcert.models.zoo import PREFIX, model_file

FORMAT = 2
MOST_BYTES = 2**24
_MARK = b'{\n  "digest": "'  # how the file begins, and, since line ends inside of texts are escaped, nothing else does
_SHARED = ("noise", "class_names", "data", "recipe")  # what an ensemble has if all of its members have the same


def load_model(paths: str | Path | Sequence[Path], device: str | torch.device = "cpu") -> Checkpoint:
    """A model of any format, an ensemble file (.json), or several of them: these vote softly."""
    several = [Path(paths)] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise InputError("give at least one --model")
    loaded = [_load(path, device, ()) for path in several]
    return loaded[0] if len(loaded) == 1 else together(loaded, several, SoftVoting.name, {})


def save(
    path: str | Path,
    name: str,
    members: Sequence[str | Path],
    options: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Write an ensemble of the checkpoints or ensemble files `members`; return it as `load` would.

    What `load` would refuse is refused here, before anything is written.

    Args:
        path: ends in `.json`; its folder exists.
        name: of the aggregation.
        members: in the order in which they are asked.
        options: of the aggregation: weights, k, threshold, a.
        details: JSON-able, for whoever reads the file: how weights were found, on which inputs.
    """
    path = Path(path)
    if path.suffix != ".json":
        raise InputError(f"path of an ensemble must end in .json, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it before saving {path.name} there")
    paths = [Path(member) for member in members]
    if path.resolve() in [member.resolve() for member in paths]:
        raise InputError(f"{path} cannot be a member of itself; write the ensemble to another file")
    return write(path, name, paths, [_load(member, "cpu", (), code=False) for member in paths], options, details)


def write(
    path: Path,
    name: str,
    paths: Sequence[Path],
    loaded: Sequence[Checkpoint],
    options: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """`save` of members that were loaded before; ensembles that are written of the same ones share them."""
    whole = together(loaded, paths, name, dict(options or {}))
    assert isinstance(whole.model, Aggregation)
    content = {
        "digest": BLANK,
        "format": FORMAT,
        "aggregation": name,
        "options": whole.model.options(),
        "members": [
            {"path": _written(member, path.parent), "fingerprint": one.fingerprint}
            for member, one in zip(paths, loaded, strict=True)
        ],
        "details": dict(details or {}),
    }
    write_whole(path, seal(json.dumps(content, indent=2, allow_nan=False).encode(), _MARK))
    return _detailed(whole, dict(details or {}))


def together(members: Sequence[Checkpoint], paths: Sequence[Path], name: str, options: Mapping[str, Any]) -> Checkpoint:
    """The aggregation of loaded members; those that do not fit together are refused by name."""
    kind = AGGREGATIONS.find(name)
    if not members:
        raise InputError(f"members of {name} must be at least {kind.least}, got 0")
    asked = list(zip(paths, members, strict=True))
    answering = asked[-1:] if issubclass(kind, Denoised) else asked  # of denoised, the classifier alone answers
    shape = _agreed(asked, "input_shape", "members must take the same inputs, but {} takes {} and {} {}")
    if issubclass(kind, Mirrored) and shape is not None and len(shape) != 3:
        raise InputError(f"only images have a mirror image, but {paths[0]} takes inputs of shape {tuple(shape)}")
    classes = _agreed(answering, "num_classes", "members must answer for the same classes, but {} has {} and {} {}")
    try:
        model = kind.of([cast(nn.Module, member.model) for member in members], **options).eval()
    except TypeError:
        raise InputError(f"{name} cannot be made with the options {dict(options)}; see its documentation") from None
    identity = fingerprint(model)
    if identity is None:  # of a member, or of an aggregation from outside
        raise InputError(f"{name} of these members has state that cannot be identified, so no file can name it")
    called = f"{name} of {counted(member.architecture.name for member in members)}"
    ours = all(isinstance(member.architecture, Architecture) for member in members)
    made = Architecture(called, classes, shape) if ours else Signature(called, classes, shape)
    mixed = counted(_trained(member) for member in members)
    size = 1 if issubclass(kind, Denoised) else len(members)
    about: dict[str, Any] = {"aggregation": name, "options": model.options(), "mixture": mixed, "members": size}
    speaking = {"noise": members[:1]} if issubclass(kind, Denoised) else {}  # the classifier may know nothing of it
    details = {key: _common([m.details.get(key) for m in speaking.get(key, members)]) for key in _SHARED}
    kept = {key: value for key, value in details.items() if value is not None}
    kept |= {"ensemble": about, "trained_on": [one for member in members for one in trained_on(member.details)]}
    held = sorted({one for member in members for one in member.details.get("held_out", ())})
    notes = tuple(dict.fromkeys(note for member in members for note in member.notes))
    return Checkpoint(model, made, kept | ({"held_out": held} if held else {}), identity, notes)


def _agreed(members: Sequence[tuple[Path, Checkpoint]], what: str, sentence: str) -> Any:
    """What the members' files say of themselves; None where none does, and refused where two differ."""
    said = [(path, getattr(member.architecture, what)) for path, member in members]
    known = [(path, value) for path, value in said if value is not None]
    for path, value in known:
        if value != known[-1][1]:
            raise InputError(sentence.format(path, value, *known[-1]))
    return known[-1][1] if known else None


def counted(names: Iterable[str]) -> str:
    """`advmacer x1 + smoothadv x2`, as Liu et al. 2023 name mixtures."""
    return " + ".join(f"{name} x{count}" for name, count in Counter(names).items())


def trained_on(details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """On which data members were trained: their fingerprint, and the share that was held out."""
    if "trained_on" in details:
        return list(details["trained_on"])
    data, recipe = details.get("data"), details.get("recipe")
    if not isinstance(data, dict) or "fingerprint" not in data:
        return []
    share = recipe.get("holdout", 0) if isinstance(recipe, dict) else 0
    return [{"fingerprint": data["fingerprint"], "holdout": share}]


def _trained(member: Checkpoint) -> str:
    """By which objective; the architecture where that is not known."""
    objective = member.details.get("objective")
    return str(objective["name"]) if isinstance(objective, dict) and "name" in objective else member.architecture.name


def _common(values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else None


def _written(member: Path, folder: Path) -> str:
    """How the file calls a member: zoo:NAME wherever the package lies, else its path from the folder of the file."""
    if str(member).startswith(PREFIX):
        return str(member)
    return Path(os.path.relpath(member.resolve(), folder.resolve())).as_posix()


def _named(text: str, folder: Path) -> Path:
    """The member that a file calls so."""
    return Path(text) if text.startswith(PREFIX) else folder / text


def _load(path: Path, device: str | torch.device, above: tuple[Path, ...], *, code: bool = True) -> Checkpoint:
    """What a file names is read without running code; what the user names may bring some."""
    path = model_file(path)
    if path.suffix != ".json":
        return formats.load(path, device, code=code)
    here = path.resolve()
    if here in above:
        raise InputError(f"{path} is a member of itself; make the ensemble again")
    content = read(path)
    loaded = []
    for member, identity in zip(content.members, content.fingerprints, strict=True):
        one = _load(member, device, (*above, here), code=False)
        if one.fingerprint != identity:
            now = str(one.fingerprint)[:12]
            raise InputError(
                f"{member} was changed since {path} was written: its fingerprint is {now}..., was "
                f"{identity[:12]}...; bring the old file back, or make the ensemble again"
            )
        loaded.append(one)
    whole = together(loaded, content.members, content.aggregation, content.options)
    return _detailed(whole, content.details)


@dataclasses.dataclass(frozen=True)
class Content:
    """What an ensemble file says; its members are not looked at."""

    aggregation: str
    options: dict[str, Any]
    members: list[Path]
    fingerprints: list[str]
    details: dict[str, Any]


def read(path: Path) -> Content:
    """What an ensemble file says; one that is damaged is refused."""
    content = _read(path)
    try:
        members = [_named(str(member["path"]), path.parent) for member in content["members"]]
        fingerprints = [str(member["fingerprint"]) for member in content["members"]]
        name, options, details = str(content["aggregation"]), dict(content["options"]), dict(content["details"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} is not a whole ensemble file; make the ensemble again") from None
    return Content(name, options, members, fingerprints, details)


def _detailed(whole: Checkpoint, details: dict[str, Any]) -> Checkpoint:
    """With details of its own; what was held out for a member stays held out."""
    held = sorted({*whole.details.get("held_out", ()), *details.get("held_out", ())})
    return dataclasses.replace(whole, details=whole.details | details | ({"held_out": held} if held else {}))


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = read_file(path, most=MOST_BYTES)
        content = json.loads(raw)
    except FileNotFoundError:
        raise InputError(f"the ensemble {path} does not exist") from None
    except OSError as error:
        raise InputError(f"the ensemble {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not an ensemble file: it is no JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise InputError(f"{path} has ensemble format {found!r}, but this version reads {FORMAT}; make it again")
    if not is_sealed(raw, _MARK):
        raise InputError(f"{path} is damaged or was edited: it is not as it was written; make the ensemble again")
    return content


formats.FORMATS.add(Format("ensemble.json", lambda path: path.suffix == ".json", load_model), "ensemble")
