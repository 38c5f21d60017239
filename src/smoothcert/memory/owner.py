"""Whose memory it is: one classifier, one norm, one family of noise, one shape of inputs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.memory.distance import check_norm
from smoothcert.memory.store import FORMAT
from smoothcert.noise import NOISES
from smoothcert.procedures.identity import flat, identifying


def belonging(classifier: Mapping[str, Any], noise: Mapping[str, Any], shape: Sequence[int]) -> dict[str, Any]:
    """What a memory for this classifier, noise and shape belongs to; what cannot have one is refused."""
    check_norm(str(noise["norm"]))
    described = flat(classifier)
    if described.get("fingerprint") is None:
        raise InputError(
            "memory belongs to one classifier, and a function without a fingerprint could be any; give the function a "
            "`fingerprint` attribute"
        )
    return {
        "classifier": {name: described.get(name) for name in identifying(described)},
        "norm": str(noise["norm"]),
        "noise": _family(noise),
        "shape": [int(size) for size in shape],
    }


def _family(noise: Mapping[str, Any]) -> dict[str, Any]:
    """Of the noise: all but its strength, which is each input's own, and what follows from the shape or the input."""
    kind = NOISES.find(noise["name"])
    own = {kind.strength_name} | kind.of_inputs | kind.of_one_input
    return {name: value for name, value in noise.items() if name not in own}


def new_owner(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The owner of a new memory, with a name that no other memory has."""
    return {"format": FORMAT, "id": secrets.token_hex(16), **wanted}


def refuse_other(name: str, owner: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse whoever the memory does not belong to, naming the first thing that differs."""
    there, asked = flat(owner), flat(wanted)
    for key in asked:
        if there.get(key) != asked[key]:
            raise InputError(
                f"memory {name} belongs to another {key.split('.', 1)[0]} ({key} is {there.get(key)}, given is "
                f"{asked[key]}); give a memory of its own"
            )
