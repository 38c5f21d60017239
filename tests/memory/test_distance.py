"""Inputs come back bit for bit, and distances are as near to the truth as is claimed."""

import math
from fractions import Fraction

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.memory.distance import as_input, check_norm, decode, distances, encode, tolerance


def test_images_of_eight_bits_take_a_byte_per_number() -> None:
    x = (np.arange(256, dtype=np.uint8).astype(np.float32) / np.float32(255)).reshape(4, 8, 8)
    assert len(encode(x)) == 256
    assert decode([encode(x)], 256).tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "numbers",
    [
        [0.5, 0.25], [-0.0, 1.0], [1.0, np.nextafter(np.float32(1), np.float32(0))], [-1 / 255, 0.0], [256 / 255, 0.0],
        [3.0e38, -3.0e38], [1e-45, 0.0], [np.float32(1 / 255) * np.float32(2.5), 0.0],
    ],
    ids=str,
)  # fmt: skip
def test_all_else_is_kept_as_float32(numbers: list[float]) -> None:
    x = np.array(numbers, dtype=np.float32)
    assert len(encode(x)) == 8
    assert decode([encode(x)], 2).tobytes() == x.tobytes()


def test_what_is_no_input_is_refused() -> None:
    for x in (np.array([1, 2]), np.array([np.nan]), np.array([]), np.array([1e300]), np.array([np.inf])):
        with pytest.raises(InputError, match="finite floating-point"):
            as_input(x)
    with pytest.raises(InputError, match="kept in 5 bytes"):
        decode([b"12345"], 3)
    for norm in ("l0", "linf"):
        with pytest.raises(InputError, match=f"got norm {norm}; certify without a memory"):
            check_norm(norm)


@pytest.mark.parametrize("scale", [1e-44, 1.0, 1e37])
@pytest.mark.parametrize("dim", [1, 50, 784])
def test_distances_against_exact_arithmetic(dim: int, scale: float) -> None:
    rng = np.random.default_rng(dim)
    x, others = ((rng.normal(size=(n, dim)) * scale).astype(np.float32) for n in (1, 5))
    half = Fraction(tolerance(dim)) / 2
    for norm in ("l2", "l1"):
        for y, found in zip(others, distances(x[0], others, norm), strict=True):
            gaps = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x[0], y, strict=True)]
            d = Fraction(float(found))
            if norm == "l1":
                assert abs(d - sum(map(abs, gaps))) <= half * sum(map(abs, gaps))
            else:
                square = sum(g * g for g in gaps)
                assert (d / (1 + half)) ** 2 <= square <= (d / (1 - half)) ** 2
    assert math.isclose(tolerance(3072), 3080 * 2.0**-52)
