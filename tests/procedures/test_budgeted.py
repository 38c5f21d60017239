import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Budgeted, converse
from smoothcert.stats import Tally, lower_bound

NOISE = Gaussian(0.5)


def test_n_depends_on_the_pilot_alone_and_the_bound_on_fresh_draws() -> None:
    asked: list[Ask] = []

    def draw(ask: Ask) -> Tally:
        asked.append(ask)
        return Tally((round(ask.n * 0.9), ask.n - round(ask.n * 0.9)))

    certificate = converse(Budgeted().certify(NOISE), draw)
    assert [ask.purpose for ask in asked] == ["choose", "bound"]
    assert asked[1].n == Budgeted().choose_n(450, NOISE)
    assert certificate.p_lower == lower_bound(round(asked[1].n * 0.9), asked[1].n, 0.001)
    assert certificate.radius == NOISE.radius(certificate.p_lower)


def test_draws_are_spent_where_they_pay() -> None:
    """A hopeless input gets the fewest draws, unanimous votes many; a higher price buys fewer; scale is free."""
    budget = Budgeted()
    assert budget.choose_n(150, NOISE) == 128
    assert budget.choose_n(500, NOISE) > budget.choose_n(400, NOISE) > 128
    prices = [Budgeted(price=price).choose_n(450, NOISE) for price in (0.0, 0.005, 0.02, 0.1, 1.0)]
    assert prices == sorted(prices, reverse=True)
    assert prices[0] == 100_000
    assert budget.choose_n(450, NOISE) == budget.choose_n(450, Gaussian(5.0))


def test_the_choice_is_the_best_of_its_candidates() -> None:
    """Against the definition, by simulation of the posterior."""
    budget, rng = Budgeted(most=20_000), np.random.default_rng(0)
    chosen = budget.choose_n(470, NOISE)
    ps = rng.beta(471, 31, size=400)
    cost = budget.price * NOISE.radius(lower_bound(20_000, 20_000, 0.001)) / 20_000

    def value(n: int) -> float:
        return float(np.mean([NOISE.radius(lower_bound(int(rng.binomial(n, p)), n, 0.001)) for p in ps])) - cost * n

    assert value(chosen) >= max(value(n) for n in (128, 1_024, 20_000)) - 0.003


def test_refusals() -> None:
    for change, words in [
        ({"price": -1.0}, "price must be"),
        ({"pilot": 5}, "pilot must be"),
        ({"most": 5}, "most must be"),
    ]:
        with pytest.raises(InputError, match=words):
            Budgeted(**change)  # type: ignore[arg-type]
