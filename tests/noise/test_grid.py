"""The exact sampler against exact probabilities: tables by enumeration, tails by many digits, draws by chi-square."""

import bisect
import hashlib
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from smoothcert.core.randomness import RowStream, generator
from smoothcert.noise import grid
from smoothcert.noise.gaussian import GaussianLaw
from smoothcert.noise.grid import (
    KEY_BITS,
    OPEN,
    REST_BITS,
    RoundedLaw,
    decide,
    draw_steps,
    fill_steps,
    resolve,
    tables,
    thresholds,
)
from smoothcert.noise.uniform import UniformLaw

CPU = torch.device("cpu")
ONE = 1 << KEY_BITS
LAWS: list[RoundedLaw] = [
    GaussianLaw(0.25, 255), GaussianLaw(1.0, 255), GaussianLaw(0.12, 17), GaussianLaw(0.5, 1), GaussianLaw(1e-3, 255),
    UniformLaw(0.4, 255), UniformLaw(0.5, 4), UniformLaw(1.7320508, 16), UniformLaw(1e-3, 255),
]  # fmt: skip
every_law = pytest.mark.parametrize("law", LAWS, ids=str)


def never(*_: int) -> int:
    raise AssertionError("64 bits decide")


def exact_floor(law: RoundedLaw, j: int, unit: int) -> int:
    """P(k <= j) in units of 1/unit, rounded down, at 200 digits and by other means than the law's own."""
    mp = mpmath.MPContext()
    mp.dps = 200
    if isinstance(law, GaussianLaw):
        return int(mp.floor(unit * mp.ncdf(mp.mpf(2 * j + 1) / 2 / law.levels / mp.mpf(law.sigma))))
    assert isinstance(law, UniformLaw)
    edge = Fraction(2 * j + 1, 2 * law.levels) / Fraction(law.half_width)
    return math.floor(unit * (1 + edge) / 2)


@every_law
def test_thresholds_are_those_of_the_law(law: RoundedLaw) -> None:
    """Every one, into tails below 2^-64, against 200 digits: rounded down, and symmetric."""
    found = thresholds(law)
    reach = law.reach(KEY_BITS)
    assert len(found) == 2 * reach
    for j, floor in zip(range(-reach, reach), found, strict=True):
        if abs(j) % 7 and abs(j) < reach - 20 and reach > 1000:
            continue  # one in seven of the long table, and all of its ends
        assert floor == exact_floor(law, j, ONE), j
    for low, high in zip(found, reversed(found), strict=True):
        assert low + high in (ONE - 1, ONE)
    if isinstance(law, GaussianLaw):
        assert (found[0], found[-1]) == (0, ONE - 1), "nothing that 64 bits can tell is left out"


@every_law
def test_moments_of_the_table(law: RoundedLaw) -> None:
    """Mass 1; mean 0; variance that of the noise plus 1/12 (Sheppard), exact to e^-2(pi sigma q)^2 for a Gaussian."""
    reach = law.reach(KEY_BITS)
    masses = [Fraction(b - a, ONE) for a, b in pairwise([0, *thresholds(law), ONE])]
    assert sum(masses) == 1
    assert abs(sum(k * m for k, m in zip(range(-reach, reach + 1), masses, strict=True))) < Fraction(2 * reach + 1, ONE)
    variance = float(sum(k * k * m for k, m in zip(range(-reach, reach + 1), masses, strict=True)))
    if isinstance(law, GaussianLaw) and law.sigma * law.levels > 1:
        assert variance == pytest.approx((law.sigma * law.levels) ** 2 + 1 / 12, rel=1e-13)


@every_law
def test_every_cell_that_decides_is_inside_one_interval(law: RoundedLaw) -> None:
    """All 2^16, in whole numbers: a decided cell has thresholds outside only, an open one has one inside."""
    floors, table, reach = thresholds(law), tables(law), law.reach(KEY_BITS)
    opened = 0
    for cell, value in enumerate(table.values.tolist()):
        low, high = cell << REST_BITS, (cell + 1) << REST_BITS  # U is in [low, high) / 2^64
        if value >= OPEN:
            assert value == OPEN + opened
            assert int(table.least[opened]) + ONE // 2 == low
            opened += 1
            assert any(low <= f < high for f in floors[bisect.bisect_left(floors, low) :][:1])
            continue
        place = int(value) + reach  # thresholds[place - 1] <= U < thresholds[place]
        assert value == int(value)
        assert place == 0 or floors[place - 1] < low
        assert place == len(floors) or floors[place] >= high
    assert opened == len(table.rest)


@every_law
def test_64_bits_give_what_many_digits_give(law: RoundedLaw) -> None:
    """`decide` at, just below and just above thresholds, and at random, against the definition."""
    table, floors, reach = tables(law), thresholds(law), law.reach(KEY_BITS)
    if not len(table.rest):
        assert reach == 0 or isinstance(law, GaussianLaw)
        return
    near = [f + d for f in floors[:: max(1, len(floors) // 150)] for d in (-1, 1, 2)]
    near += [
        int(word) + ONE // 2 for word in torch.empty(2000, dtype=torch.int64).random_(generator=generator(0, "", "", 0))
    ]
    keys = [key for key in near if 0 <= key < ONE and key not in set(floors)]
    cells = {int(least) + ONE // 2 >> REST_BITS: a for a, least in enumerate(table.least)}
    keys = [key for key in keys if key >> REST_BITS in cells]
    which = np.array([cells[key >> REST_BITS] for key in keys])
    rest = np.array([key & grid.REST for key in keys])
    steps = decide(law, which, rest, never).tolist()
    assert steps == [bisect.bisect_right(floors, key) - reach for key in keys]
    assert steps[:50] == [resolve(law, key, KEY_BITS, never) for key in keys[:50]]


def test_a_key_that_equals_a_threshold_takes_more_bits() -> None:
    law = GaussianLaw(0.25, 255)
    floors, reach = thresholds(law), law.reach(KEY_BITS)
    table = tables(law)
    cells = {int(least) + ONE // 2 >> REST_BITS: a for a, least in enumerate(table.least)}
    for j in (-200, -3, -1, 0, 1, 60, 250):
        key = floors[j + reach]
        which, rest = np.array([cells[key >> REST_BITS]]), np.array([key & grid.REST])
        assert decide(law, which, rest, lambda _: 0).tolist() == [j], "U is below the threshold"
        assert decide(law, which, rest, lambda _: ONE - 1).tolist() == [j + 1], "U is above"
        # 128 bits that again equal the threshold's, then one less or more.
        further = law.threshold(j, 2 * KEY_BITS)[0] & (ONE - 1)
        words = [iter([further, 0]), iter([further, ONE - 1])]
        assert [resolve(law, key, KEY_BITS, lambda w=w: next(w)) for w in words] == [j, j + 1]  # type: ignore[misc]


@pytest.mark.parametrize("law", [GaussianLaw(0.25, 255), GaussianLaw(1.0, 255), GaussianLaw(0.5, 1)], ids=str)
def test_the_far_tails(law: RoundedLaw) -> None:
    """First 64 bits all 0 or all 1, beyond 9 sigma: what follows decides, by the law at 200 digits."""
    assert isinstance(law, GaussianLaw)
    for further in (1, 2**20, 2**63, ONE - 1):
        words = [0, further, 0x0123456789ABCDEF]
        u = further << KEY_BITS | words[-1]  # U in units of 2^-256
        k = resolve(law, 0, KEY_BITS, iter(words).__next__)
        assert exact_floor(law, k - 1, ONE**4) < u < exact_floor(law, k, ONE**4)
        assert k < -9 * law.sigma * law.levels + 1
        mirrored = [ONE - 1 - word for word in words]
        assert resolve(law, ONE - 1, KEY_BITS, iter(mirrored).__next__) == -k


def test_dyadic_thresholds_are_met_exactly() -> None:
    """Uniform on [-1/2, 1/2] in quarters: 1/8, 1/4, 1/4, 1/4, 1/8. A U that equals a threshold is above it."""
    law = UniformLaw(0.5, 4)
    assert thresholds(law) == tuple(ONE // 8 * i for i in (1, 3, 5, 7))
    for eighths, k in enumerate([-2, -1, -1, 0, 0, 1, 1, 2]):
        assert resolve(law, ONE // 8 * eighths, KEY_BITS, never) == k
        assert resolve(law, ONE // 8 * (eighths + 1) - 1, KEY_BITS, never) == k


def pooled_chi_square(steps: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """p-value of the counts of all k, with tails pooled to at least 5 expected."""
    far = int(np.abs(steps).max()) + 1
    ks = np.arange(-far, far + 1)
    expected = np.diff(cdf(np.arange(-far, far) + 0.5), prepend=0.0, append=1.0) * steps.size
    observed = np.bincount((steps + far).astype(np.int64), minlength=len(ks))
    inner = np.flatnonzero(expected >= 5)
    a, b = inner[0], inner[-1] + 1
    pool = lambda v: np.concatenate([[v[:a].sum() + v[a]], v[a + 1 : b - 1], [v[b - 1] + v[b:].sum()]])  # noqa: E731
    return float(stats.chisquare(pool(observed), pool(expected), sum_check=False).pvalue)


def drawn(law: RoundedLaw, by: str) -> np.ndarray:
    """A million k."""
    if by == "generator":
        return draw_steps(law, 1_000_000, generator(0, "x", "test", 0), CPU).numpy()
    out = np.empty((1000, 1000), dtype=np.float32)
    fill_steps(law, RowStream(0, "x", "test"), 0, out)
    return out.ravel()


both_ways = pytest.mark.parametrize("by", ["generator", "row"])


@both_ways
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_gaussian_draws(sigma: float, by: str) -> None:
    steps = drawn(GaussianLaw(sigma, 255), by)
    assert pooled_chi_square(steps, lambda edge: stats.norm.cdf(edge / (255 * sigma))) > 1e-3
    for z in (1, 2, 3, 4, 5, 6):
        p = 2 * stats.norm.sf((np.floor(z * sigma * 255) + 0.5) / (255 * sigma))
        beyond = int((np.abs(steps) > z * sigma * 255).sum())
        assert min(stats.binom.sf(beyond - 1, steps.size, p), stats.binom.cdf(beyond, steps.size, p)) > 1e-4


@both_ways
def test_uniform_draws(by: str) -> None:
    steps = drawn(UniformLaw(0.4, 255), by)
    assert pooled_chi_square(steps, lambda edge: np.clip(0.5 + edge / 255 / 0.8, 0, 1)) > 1e-3
    assert np.abs(steps).max() == UniformLaw(0.4, 255).reach(KEY_BITS)


def test_rows_are_the_inverse_of_the_law_at_the_bits_of_the_stream() -> None:
    """Number by number: 16 bits of the row, then 48 further ones of the row and the number."""
    law, stream, rows, d = GaussianLaw(1.0, 255), RowStream(3, "abc", "bound"), 40, 101
    floors, reach, undecided = thresholds(law), law.reach(KEY_BITS), 0
    out = np.empty((rows, d), dtype=np.float32)
    fill_steps(law, stream, 1000, out)
    cells = stream.bits(1000, rows, 2 * d).view("<u2")
    for i, j in itertools.product(range(rows), range(d)):
        cell = int(cells[i, j])
        low, high = (bisect.bisect_left(floors, edge << REST_BITS) for edge in (cell, cell + 1))
        if low < high:
            undecided += 1
            (word,) = stream.further(np.array([1000 + i]), np.array([j]), 0)
            low = bisect.bisect_right(floors, cell << REST_BITS | int(word) & grid.REST)
        assert out[i, j] == low - reach
    assert undecided > 50


def test_a_row_that_64_bits_do_not_decide_takes_more_of_its_own() -> None:
    """A stream made up: number 1 of row 7 equals a threshold in its first 64 bits; its later turns decide."""
    law = GaussianLaw(0.25, 255)
    floors, reach, j = thresholds(law), law.reach(KEY_BITS), 60
    key = floors[j + reach]
    asked: list[tuple[int, int, int]] = []

    class MadeUp(RowStream):
        def bits(self, first: int, rows: int, size: int, scratch: object = None) -> np.ndarray:
            cells = np.full((rows, 8), 1 << 15, dtype="<u2")  # decided
            cells[7 - first, 1] = key >> REST_BITS
            return cells.view(np.uint8)

        def further(self, rows: np.ndarray, numbers: np.ndarray, turn: int) -> np.ndarray:
            asked.extend((int(r), int(n), turn) for r, n in zip(rows, numbers, strict=True))
            word = key & grid.REST if turn == 0 else law.threshold(j, 2 * KEY_BITS)[0] & (ONE - 1)
            return np.full(len(rows), word if turn < 2 else ONE - 1, dtype=np.uint64)

    out = np.empty((3, 5), dtype=np.float32)
    fill_steps(law, MadeUp(0, "x", "test"), 6, out)
    assert out[1, 1] == j + 1
    assert asked == [(7, 1, 0), (7, 1, 1), (7, 1, 2)]


def test_draws_are_the_inverse_of_the_law_at_the_generator_s_bits() -> None:
    """Word for word from numpy's Mersenne Twister: four draws per 64 bits, then 48 more where 16 do not decide."""
    law, count = GaussianLaw(0.25, 255), 4003
    words = np.frombuffer(hashlib.shake_256(b"smoothcert-1/3/abc/bound/5").digest(2496), dtype="<u4")
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": words.astype(np.uint32), "pos": 624}}
    raw = [int(high) << 32 | int(low) for high, low in twister.random_raw(4000).reshape(-1, 2)]
    cells = [raw[i // 4] >> 16 * (i % 4) & 0xFFFF for i in range(count)]
    rests, floors = iter(raw[1001:]), thresholds(law)
    wanted = []
    for cell in cells:
        low, high = (bisect.bisect_left(floors, edge << REST_BITS) for edge in (cell, cell + 1))
        if low < high:
            low = bisect.bisect_right(floors, cell << REST_BITS | next(rests) & grid.REST)
        wanted.append(low - law.reach(KEY_BITS))
    assert draw_steps(law, count, generator(3, "abc", "bound", 5), CPU).tolist() == wanted
