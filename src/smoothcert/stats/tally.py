"""What n draws said: votes per class and, for soft certification, sums of scores. Tallies add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.core.errors import InputError

SCORE_UNIT = 2.0**-20
"""Soft scores are rounded down to multiples of this, so that their sums are exact integers in any order."""

MOST_CLASSES = 10**6


@dataclass(frozen=True)
class Tally:
    """The answers to n noisy copies of one input. Everything is an integer, so `+` is exact and order-free.

    Soft scores in [0, 1] enter as whole multiples of `SCORE_UNIT`, rounded down: a lower bound on the mean of the
    rounded scores is one on the mean of the scores, and an upper bound needs one unit more.
    """

    votes: tuple[int, ...]  # (C,)
    score_sums: tuple[int, ...] | None = None  # (C,) in units; None: only votes were kept
    score_squares: tuple[int, ...] | None = None  # (C,) in squared units

    @property
    def draws(self) -> int:
        """How many draws are in it."""
        return sum(self.votes)

    @property
    def num_classes(self) -> int:
        """How many classes the classifier has."""
        return len(self.votes)

    @property
    def top(self) -> int:
        """The class with the most votes; the first of them on a tie."""
        return max(range(len(self.votes)), key=self.votes.__getitem__)

    @property
    def runner_up(self) -> int:
        """The class with the second most votes."""
        return max((c for c in range(len(self.votes)) if c != self.top), key=self.votes.__getitem__)

    def __add__(self, other: Tally) -> Tally:
        if len(self.votes) != len(other.votes) or (self.score_sums is None) != (other.score_sums is None):
            raise InputError("tallies add only for the same classes and the same kind (both hard or both soft)")
        return Tally(
            _sum(self.votes, other.votes),
            None if self.score_sums is None else _sum(self.score_sums, other.score_sums or ()),
            None if self.score_squares is None else _sum(self.score_squares, other.score_squares or ()),
        )

    @classmethod
    def empty(cls, num_classes: int, *, soft: bool = False) -> Tally:
        """The tally of no draw."""
        zeros = (0,) * num_classes
        return cls(zeros, zeros if soft else None, zeros if soft else None)

    def to_json(self) -> dict[str, Any]:
        """Only the classes that got something: a thousand classes stay readable."""
        out: dict[str, Any] = {"classes": len(self.votes), "votes": _sparse(self.votes)}
        if self.score_sums is not None and self.score_squares is not None:
            out |= {"score_sums": _sparse(self.score_sums), "score_squares": _sparse(self.score_squares)}
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tally:
        """The inverse of `to_json`."""
        classes = data["classes"]
        if type(classes) is not int or not 1 <= classes <= MOST_CLASSES:
            raise InputError(f"a tally has between 1 and {MOST_CLASSES} classes, got {classes!r}")
        soft = "score_sums" in data
        return cls(
            _dense(data["votes"], classes),
            _dense(data["score_sums"], classes) if soft else None,
            _dense(data["score_squares"], classes) if soft else None,
        )


def _sum(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i + j for i, j in zip(a, b, strict=True))


def _sparse(values: tuple[int, ...]) -> dict[str, int]:
    return {str(c): v for c, v in enumerate(values) if v}


def _dense(values: Mapping[str, int], classes: int) -> tuple[int, ...]:
    dense = [0] * classes
    for c, v in values.items():
        if not 0 <= int(c) < classes or type(v) is not int or v < 0:
            raise InputError(f"a tally of {classes} classes cannot hold {v!r} for class {c!r}")
        dense[int(c)] = v
    return tuple(dense)
