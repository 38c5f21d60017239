"""Numbers as text, rounded to the safe side: a claim is printed rounded down, a cost or an upper end rounded up."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def down(value: float, digits: int) -> str:
    """A claim with this many decimals, never above the number that Python prints for it: 0.29 stays 0.29."""
    return _quantized(_decimal(value), digits, ROUND_FLOOR)


def up(value: float, digits: int) -> str:
    """The upper end of an interval, never below the value."""
    return _quantized(_decimal(value), digits, ROUND_CEILING)


def percent(share: float, *, ceiling: bool = False) -> str:
    """A share in percent with one decimal, rounded down (or up): 0.7499999 is 74.9, 0.75 is 75.0."""
    return _quantized(_decimal(share).scaleb(2), 1, ROUND_CEILING if ceiling else ROUND_FLOOR)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _quantized(value: Decimal, digits: int, rounding: str) -> str:
    return f"{value.quantize(Decimal(1).scaleb(-digits), rounding):f}"
