import pytest

from smoothcert.core.errors import InputError
from smoothcert.procedures import ABSTAIN, Predict, Prediction, converse
from smoothcert.stats import Tally


def answer(votes: tuple[int, ...], alpha: float = 0.001) -> Prediction:
    return converse(Predict(n=sum(votes), alpha=alpha).predict(), lambda _: Tally(votes))


def test_the_leader_is_returned_when_it_is_clear() -> None:
    prediction = answer((3, 90, 7))
    assert (prediction.label, prediction.votes, prediction.draws) == (1, (3, 90, 7), 100)
    assert prediction.p_value < 0.001


def test_two_close_classes_abstain() -> None:
    # 60 against 40: the two-sided p-value is 0.0569 (scipy.stats.binomtest(60, 100).pvalue).
    prediction = answer((60, 40))
    assert prediction.label == ABSTAIN
    assert prediction.p_value == pytest.approx(0.05688793, abs=1e-8)
    assert "too close to call: class 0 has 60 votes, class 1 has 40" in prediction.reason
    assert answer((60, 40), alpha=0.06).label == 0


@pytest.mark.parametrize(("alpha", "smallest"), [(0.001, 11), (0.05, 6), (0.25, 4)])
def test_too_few_draws_are_refused(alpha: float, smallest: int) -> None:
    with pytest.raises(InputError, match=f"n must be at least {smallest}"):
        Predict(n=smallest - 1, alpha=alpha)
    assert answer((smallest, 0), alpha=alpha).label == 0
