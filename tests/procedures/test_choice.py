"""Choosing the class: how many draws it takes, and how little is lost, exactly."""

from math import comb

import pytest

from smoothcert.procedures import Ask
from smoothcert.procedures.choice import choose_class, out_of_reach, settled
from smoothcert.stats import Tally


def choose(n0: int, p0: float, *answers: tuple[int, ...]) -> tuple[list[int], Tally]:
    """What is asked for, and the tally, when these are the answers."""
    conversation, asked, left = choose_class(n0, p0), list[int](), list(answers)
    try:
        ask = next(conversation)
        while True:
            asked.append(ask.n)
            assert ask == Ask("choose", ask.n, further=n0 - sum(asked))
            ask = conversation.send(Tally(left.pop(0)))
    except StopIteration as stop:
        assert not left
        return asked, stop.value


def test_draws_that_agree_settle_the_class_at_once() -> None:
    assert choose(100, 0.84, (16, 0)) == ([16], Tally((16, 0)))
    assert choose(100, 0.84, (1, 15)) == ([16], Tally((1, 15)))
    assert choose(5, 0.84, (3, 2)) == ([5], Tally((3, 2))), "never more than n0"


def test_draws_that_do_not_go_on_to_n0() -> None:
    asked, tally = choose(100, 0.55, (9, 7), (9, 7), (17, 15), (20, 16))
    assert (asked, tally) == ([16, 16, 32, 36], Tally((55, 45)))
    asked, tally = choose(100, 0.84, (14, 2), (15, 1))
    assert (asked, tally) == ([16, 16], Tally((29, 3)))


def test_a_class_too_rare_for_the_radius_is_not_sought_further() -> None:
    asked, tally = choose(100, 0.9987, (8, 8))
    assert asked == [16]
    assert out_of_reach(tally, 0.9987)
    assert not out_of_reach(Tally((16, 0)), 0.9987)
    assert not out_of_reach(Tally((13, 3)), 0.84)


def chosen(p: float, n0: int, p0: float, *, looks: bool) -> float:
    """The exact probability that the class with p is chosen and gone on with, and not the other, with 1 - p."""
    law, draws, right = {0: 1.0}, 0, 0.0  # of the votes for the class
    while draws < n0:
        more = min(draws or 16, n0 - draws) if looks else n0
        step = [comb(more, k) * p**k * (1 - p) ** (more - k) for k in range(more + 1)]
        new: dict[int, float] = {}
        for votes, mass in law.items():
            for k, share in enumerate(step):
                new[votes + k] = new.get(votes + k, 0.0) + mass * share
        draws, law = draws + more, {}
        for votes, mass in new.items():
            tally = Tally((votes, draws - votes))
            if draws < n0 and not settled(tally, n0, p0):
                law[votes] = mass
            elif not (looks and out_of_reach(tally, p0)):
                right += mass * (1.0 if 2 * votes > draws else 0.5 if 2 * votes == draws else 0.0)
    return right


@pytest.mark.parametrize("p", [0.51, 0.53, 0.55, 0.57, 0.6, 0.65, 0.7, 0.8413, 0.9332, 0.97725, 0.9987])
@pytest.mark.parametrize("n0", [20, 100, 250])
def test_almost_nothing_is_lost(p: float, n0: int) -> None:
    """Two classes, the nearest race, and a radius that p just does not have: the most that can be lost."""
    lost = chosen(p, n0, p, looks=False) - chosen(p, n0, p, looks=True)
    assert lost <= 3e-4
