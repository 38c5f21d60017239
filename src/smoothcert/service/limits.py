"""What a server allows: everything that somebody else could make too large, too often or too long."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from smoothcert.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one server.

    Args:
        queue: questions under way or waiting; with more, a client is told when to come back.
        body: bytes of a request.
        pixels: of an image file, before any of them is inflated.
        inputs: of one request of tensors.
        draws: that one answer may take.
        deadline: seconds after which a request is answered with what there is, if it did not ask for less.
        rate: requests of one client per second, on average; twenty at once are let through.
        most_answers: new answers for one client and day (UTC); each is false with probability at most its alpha.
        settings: different radii, alphas and numbers of draws that one key answers with.
        answers_per_key: after so many the key is changed.
        rotate_every: seconds after which the key is changed.
    """

    queue: int = 256
    body: int = 8 * 2**20
    pixels: int = 2**24
    inputs: int = 64
    draws: int = 1_000_000
    deadline: float = 60.0
    rate: float = 50.0
    most_answers: int | None = None
    settings: int = 256
    answers_per_key: int = 100_000
    rotate_every: float = 86_400.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"--{field.name.replace('_', '-')} must be above 0, got {value}")
