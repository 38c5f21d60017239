"""Numbers rounded to the safe side: what is claimed goes down, what is needed or spent goes up; as numbers, as text."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from smoothcert.core.errors import InputError

# float64 formulas of radii and probabilities are good to a few units in the last place; what is claimed is moved this
# much to the safe side, relative, which is far more than their error and far less than anybody can see (tested against
# 50 digits).
SAFETY = 2.0**-46

PLAIN = 10**15
"""From here on numbers are printed with a power of ten: nobody reads more digits."""


def rounded_down(radius: float) -> float:
    """At least 0 and a hair below: a claim is never rounded up."""
    return max(0.0, radius - abs(radius) * SAFETY)


def rounded_up(p: float) -> float:
    """A requirement on a probability, a hair above."""
    return min(1.0, p + p * SAFETY)


def check_radius(radius: float) -> None:
    """Refuse a radius that is not a non-negative finite number."""
    if not 0 <= radius < math.inf:
        raise InputError(f"radius must be non-negative and finite, got {radius}")


def down(value: float, digits: int) -> str:
    """A claim with this many decimals, never above the number that Python prints for it: 0.29 stays 0.29.

    Of any finite number; from 10^15 on with a power of ten: 2.5e26 is 2.5000e+26.
    """
    return _quantized(_decimal(value), digits, ROUND_FLOOR)


def up(value: float, digits: int) -> str:
    """The upper end of an interval, never below the value."""
    return _quantized(_decimal(value), digits, ROUND_CEILING)


def nearest(value: float, digits: int) -> str:
    """What others published, as they round it, and a tie upwards: 0.53235 is 0.5324, though its float lies below."""
    return _quantized(_decimal(value), digits, ROUND_HALF_UP)


def percent(share: float, *, ceiling: bool = False) -> str:
    """A share in percent with one decimal, rounded down (or up): 0.7499999 is 74.9, 0.75 is 75.0."""
    return _quantized(_decimal(share).scaleb(2), 1, ROUND_CEILING if ceiling else ROUND_FLOOR)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _quantized(value: Decimal, digits: int, rounding: str) -> str:
    if abs(value) < PLAIN:
        return f"{value.quantize(Decimal(1).scaleb(-digits), rounding, Context(prec=digits + 20)):f}"
    return f"{Context(prec=digits + 1, rounding=rounding).plus(value):.{digits}e}"
