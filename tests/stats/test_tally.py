import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.core.errors import InputError
from smoothcert.stats import Tally

votes = st.lists(st.integers(0, 10**6), min_size=3, max_size=3).map(tuple)


@given(votes, votes, votes)
def test_tallies_add_in_any_order(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    x, y, z = Tally(a), Tally(b), Tally(c)
    assert (x + y) + z == z + (y + x)
    assert (x + y).draws == sum(a) + sum(b)
    assert x + Tally.empty(3) == x


def test_top_and_runner_up() -> None:
    tally = Tally((3, 9, 0, 7))
    assert (tally.top, tally.runner_up, tally.draws, tally.num_classes) == (1, 3, 19, 4)
    assert Tally((5, 5)).top == 0


def test_hard_and_soft_do_not_mix() -> None:
    with pytest.raises(InputError, match="same classes"):
        Tally((1, 2)) + Tally.empty(2, soft=True)
    with pytest.raises(InputError, match="same classes"):
        Tally((1, 2)) + Tally((1, 2, 3))


@pytest.mark.parametrize("tally", [Tally((0, 5, 0)), Tally((1, 2), (10, 20), (100, 400))])
def test_json_round_trip(tally: Tally) -> None:
    assert Tally.from_json(tally.to_json()) == tally


@pytest.mark.parametrize("votes", [{"7": 1}, {"-1": 1}, {"0": -4}, {"0": 1.5}])
def test_damaged_json_is_refused(votes: dict[str, float]) -> None:
    with pytest.raises(InputError, match="cannot hold"):
        Tally.from_json({"classes": 3, "votes": votes})
