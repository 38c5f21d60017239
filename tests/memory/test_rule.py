"""The rule: cases by hand, and thousands of random insertions in every order."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.memory.distance import distances, tolerance
from smoothcert.memory.rule import Neighbour, Ruling, decide
from smoothcert.procedures import ABSTAIN

T = tolerance(1)


def near(region: int, label: int, radius: float, distance: float) -> Neighbour:
    return Neighbour(region, label, radius, distance, T)


def test_alone_a_claim_stays_as_it_is() -> None:
    assert decide(3, 0.5, []) == Ruling(3, 0.5, store=True)
    assert decide(ABSTAIN, 0.0, []) == Ruling(ABSTAIN, 0.0, store=False)


def test_inside_a_region_of_another_class_the_region_answers() -> None:
    for label, radius in ((2, 0.7), (ABSTAIN, 0.0)):
        ruling = decide(label, radius, [near(7, 1, 1.0, 0.25)])
        assert (ruling.label, ruling.store, ruling.inside) == (1, False, 7)
        assert 0.75 - 1e-12 < ruling.radius <= 0.75


def test_inside_a_region_of_the_same_class_the_larger_radius_counts() -> None:
    home = near(1, 1, 1.0, 0.25)
    assert decide(1, 0.5, [home]).radius == pytest.approx(0.75, abs=1e-12)
    assert not decide(1, 0.5, [home]).store
    assert decide(1, 0.9, [home]) == Ruling(1, 0.9, store=True, inside=1)
    # Cut by a region of another class, but not below what is left of the own one.
    other = near(2, 0, 1.0, 1.8)
    assert decide(1, 0.9, [home, other]).radius == pytest.approx(0.8, abs=1e-12)
    assert decide(1, 0.9, [home, other]).cut_by == 2
    closer = near(3, 0, 1.0, 1.76)
    ruling = decide(1, 0.9, [home, closer])
    assert (ruling.store, ruling.cut_by) == (True, 3)
    assert decide(1, 0.9, [near(1, 1, 1.0, 0.2), near(3, 0, 1.0, 1.8)]).cut_by == 3


def test_the_region_that_reaches_furthest_answers() -> None:
    ruling = decide(ABSTAIN, 0.0, [near(1, 5, 1.0, 0.9), near(2, 5, 0.5, 0.1), near(3, 5, 0.6, 0.5)])
    assert (ruling.inside, ruling.radius) == (2, pytest.approx(0.4, abs=1e-12))


def test_outside_the_nearest_other_class_cuts() -> None:
    ruling = decide(1, 2.0, [near(1, 0, 1.0, 2.5), near(2, 2, 1.0, 2.25), near(3, 1, 3.0, 4.0)])
    assert (ruling.label, ruling.store, ruling.cut_by) == (1, True, 2)
    assert 1.25 - 1e-12 < ruling.radius <= 1.25
    assert decide(1, 1.2, [near(2, 2, 1.0, 2.25)]) == Ruling(1, 1.2, store=True)


def test_at_the_boundary_nothing_is_claimed_and_nothing_stored() -> None:
    """An open ball does not hold its boundary; up to rounding either side may answer, with radius 0."""
    for distance in (1.0, np.nextafter(1.0, 0), np.nextafter(1.0, 2)):
        ruling = decide(1, 0.5, [near(1, 0, 1.0, float(distance))])
        assert (ruling.radius, ruling.store) == (0.0, False)
    just = decide(1, 0.5, [near(1, 0, 1.0, 1.0 + 5 * T)])
    assert (just.label, just.store, just.cut_by) == (1, True, 1)
    assert 0 < just.radius < 2 * T
    gone = decide(1, 0.5, [near(1, 0, 1.0, 1.0 + 2 * T)])
    assert gone == Ruling(ABSTAIN, 0.0, store=False, cut_by=1), "a later region could cover x itself"


def test_a_region_at_the_same_place_leaves_all_of_itself() -> None:
    assert decide(1, 0.3, [near(4, 1, 0.3, 0.0)]) == Ruling(1, 0.3, store=False, inside=4)


def test_an_invariant_that_is_broken_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory is damaged: its regions of the classes \[0, 1\] overlap"):
        decide(1, 0.5, [near(1, 0, 1.0, 0.5), near(2, 1, 1.0, 0.5)])


@dataclass
class Plain:
    """A memory without an index or a store: a list of balls."""

    norm: str
    x: list[np.ndarray] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    radii: list[float] = field(default_factory=list)

    def neighbours(self, x: np.ndarray) -> list[Neighbour]:
        if not self.x:
            return []
        apart = distances(x, np.stack(self.x), self.norm)
        t = tolerance(x.size)
        return [
            Neighbour(i + 1, label, radius, float(d), t)
            for i, (label, radius, d) in enumerate(zip(self.labels, self.radii, apart, strict=True))
        ]

    def insert(self, x: np.ndarray, label: int, radius: float) -> Ruling:
        ruling = decide(label, radius, self.neighbours(x))
        if ruling.store:
            self.x.append(x)
            self.labels.append(ruling.label)
            self.radii.append(ruling.radius)
        return ruling


def by_the_book(label: int, radius: float, balls: list[Neighbour]) -> tuple[int, float]:
    """The rule as it is written down, in plain floats."""
    home = [b for b in balls if b.distance < b.radius]
    if home:
        inner, answer = max(b.radius - b.distance for b in home), home[0].label
        outer = min((b.distance - b.radius for b in balls if b.label != answer), default=np.inf)
        return answer, max(min(radius, outer), inner) if label == answer else inner
    if label == ABSTAIN:
        return ABSTAIN, 0.0
    return label, min([radius, *(b.distance - b.radius for b in balls if b.label != label)])


def scenario(rng: np.random.Generator, dim: int, norm: str, count: int) -> list[tuple[np.ndarray, int, float]]:
    """Balls that overlap a lot; a sixth of the inputs abstain."""
    x = rng.normal(size=(count, dim)).astype(np.float32)
    scale = float(np.median(distances(x[0], x[1:], norm)))
    labels = np.where(rng.random(count) < 1 / 6, ABSTAIN, rng.integers(0, 3, count))
    most = 0.8 if dim == 2 else 1.6  # in many dimensions all distances are alike
    radii = np.where(labels == ABSTAIN, 0.0, rng.random(count) * most * scale)
    return [(one, int(label), float(radius)) for one, label, radius in zip(x, labels, radii, strict=True)]


def inside(rng: np.random.Generator, x: np.ndarray, radius: float, norm: str) -> np.ndarray:
    """A point of the open ball, as often as not just below its boundary."""
    way = rng.normal(size=x.shape)
    length = np.abs(way).sum() if norm == "l1" else np.sqrt(np.square(way).sum())
    share = rng.choice([rng.random(), 1 - 1e-6])
    return (x + way / length * radius * share).astype(np.float32)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize(("dim", "orders"), [(2, 1500), (50, 1000)])
def test_thousands_of_orders_keep_the_invariant_and_every_promise(norm: str, dim: int, orders: int) -> None:
    rng = np.random.default_rng(dim)
    seen = {"cut": 0, "overruled": 0, "supplied": 0, "abstained": 0}
    for _ in range(orders // 10):
        inputs = scenario(rng, dim, norm, 12)
        for _ in range(10):
            memory, promises = Plain(norm), []
            for row in rng.permutation(len(inputs)):
                x, label, radius = inputs[row]
                balls = memory.neighbours(x)
                stored = len(memory.x)
                ruling = memory.insert(x, label, radius)
                expected = by_the_book(label, radius, balls)
                assert ruling.label == expected[0]
                assert expected[1] - 1e-9 <= ruling.radius <= expected[1], "rounded down, and by next to nothing"
                assert (label != ABSTAIN) or len(memory.x) == stored, "an abstention is never stored"
                if ruling.label != ABSTAIN:
                    promises.append((x, ruling.label, ruling.radius))
                seen["cut"] += ruling.label == label and ruling.radius < radius
                seen["overruled"] += ABSTAIN != label != ruling.label
                seen["supplied"] += label == ABSTAIN != ruling.label
                seen["abstained"] += ruling.label == ABSTAIN
            _check_invariant(memory)
            for x, label, radius in promises:
                query = inside(rng, x, radius, norm)
                if distances(query, x[None], norm)[0] < radius:  # rounding to float32 may lead out
                    answer = memory.insert(query, ABSTAIN, 0.0)
                    assert answer.label == label, "whoever asks inside a region gets its class, for ever"
    assert min(seen.values()) > orders / 10, f"everything must have happened: {seen}"


def _check_invariant(memory: Plain) -> None:
    t = tolerance(memory.x[0].size)
    for i, x in enumerate(memory.x):
        apart = distances(x, np.stack(memory.x), memory.norm)
        other = np.array(memory.labels) != memory.labels[i]
        assert (memory.radii[i] + np.array(memory.radii) <= (1 - t) * apart)[other].all()


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_regions_are_apart_in_exact_arithmetic(norm: str) -> None:
    rng = np.random.default_rng(3)
    pairs = 0
    for _ in range(60):
        memory = Plain(norm)
        for x, label, radius in scenario(rng, 2, norm, 12):
            memory.insert(x, label, radius)
        balls = list(zip(memory.x, memory.labels, memory.radii, strict=True))
        for i, (x, a, r) in enumerate(balls):
            for y, b, s in balls[:i]:
                if a != b:
                    gaps = [Fraction(float(p)) - Fraction(float(q)) for p, q in zip(x, y, strict=True)]
                    reach = Fraction(r) + Fraction(s)
                    apart = sum(map(abs, gaps)) if norm == "l1" else sum(g * g for g in gaps)
                    assert (reach if norm == "l1" else reach * reach) <= apart
                    pairs += 1
    assert pairs > 500
