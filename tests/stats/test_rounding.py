"""Text is on the safe side of the number, whatever its size."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.core.errors import InputError
from smoothcert.stats.rounding import check_radius, down, percent, rounded_down, rounded_up, up

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, st.integers(0, 12))
def test_down_and_up_enclose_every_finite_number(value: float, digits: int) -> None:
    below, above = Fraction(down(value, digits)), Fraction(up(value, digits))
    named = Fraction(repr(value))
    assert below <= named <= above
    # By less than a unit of the last digit: a decimal, or a digit of a number with a power of ten.
    unit = Fraction(10) ** -digits
    largest = max(abs(below), abs(above))
    if largest >= 10**15:
        unit *= Fraction(10) ** (len(str(int(largest))) - 1)
    assert named - below < unit
    assert above - named < unit


@given(finite)
def test_percent_is_rounded_down_or_up(share: float) -> None:
    assert Fraction(percent(share)) <= 100 * Fraction(repr(share)) <= Fraction(percent(share, ceiling=True))


def test_texts() -> None:
    assert (down(0.29, 2), up(0.29, 2), down(0.7499999, 3), up(0.7490001, 3)) == ("0.29", "0.29", "0.749", "0.750")
    assert (percent(0.7499999), percent(0.75), percent(0.7499999, ceiling=True)) == ("74.9", "75.0", "75.0")
    assert (down(2.5e26, 4), up(2.5e26, 4)) == ("2.5000e+26", "2.5000e+26")
    assert (down(123456789e10, 4), up(123456789e10, 4)) == ("1.2345e+18", "1.2346e+18")
    assert (down(99999999e20, 2), up(99999999e20, 2)) == ("9.99e+27", "1.00e+28")
    assert down(sys.float_info.max, 4) == "1.7976e+308"
    assert (down(123456789.12345, 4), down(5e-324, 4), up(5e-324, 4)) == ("123456789.1234", "0.0000", "0.0001")


def test_numbers() -> None:
    assert 0 < 1 - rounded_down(1.0) < 1e-13
    assert rounded_down(-1.0) == 0
    assert 0 < rounded_up(0.5) - 0.5 < 1e-13
    assert rounded_up(1.0) == 1
    for radius in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="radius must be non-negative and finite"):
            check_radius(radius)
