"""The probe of a fixed function: who looks at other rows is refused, however large or small the scores are."""

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.engine.classifier import same_scores
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed

X = torch.full((1, 4), 0.5)
QUICK = Fixed(n0=50, n=300)


class SeesTheBatch(nn.Module):
    """Answers by the mean of all rows, which are copies of one input: almost without noise."""

    def __init__(self, added: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.added, self.dtype = added, dtype

    def forward(self, x: Tensor) -> Tensor:
        side = torch.sign(x.mean() - 0.45).expand(len(x))
        return torch.stack([-side, side], dim=1).to(self.dtype) + self.added


class NormOfTheBatch(nn.Module):
    """Batch-norm without running statistics: eval() does not stop it from looking at the batch."""

    def __init__(self, added: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)).to(dtype)
        self.added, self.dtype = added, dtype

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x.to(self.dtype)) + self.added
        return scores


class LastPlace(nn.Module):
    """Looks at the batch, and says so in the last place of its scores only."""

    def forward(self, x: Tensor) -> Tensor:
        side = (x.mean() > 0.45).float().expand(len(x))
        return torch.stack([1 - side, side], dim=1) + 2.0**23


class HelpsCopies(nn.Module):
    """Answers by each row, and helps where all rows are copies of one input; by less than rounding takes away."""

    def __init__(self, added: float, helps: float) -> None:
        super().__init__()
        self.added, self.helps = added, helps

    def forward(self, x: Tensor) -> Tensor:
        own = x[:, 0] / 16
        help_ = self.helps * torch.sign(own.mean()) * (x.std() < 0.5)
        return torch.stack([-own - help_, own + help_], dim=1) + self.added


@pytest.mark.parametrize(
    "model",
    [
        SeesTheBatch(0.0), SeesTheBatch(2.0**18), SeesTheBatch(-(2.0**18)), SeesTheBatch(2.0**22),
        SeesTheBatch(2.0**18, torch.float64), SeesTheBatch(2.0**40, torch.float64),
        SeesTheBatch(2.0**51, torch.float64),
        SeesTheBatch(2.0**5, torch.half), SeesTheBatch(2.0**9, torch.half), SeesTheBatch(2.0**6, torch.bfloat16),
        NormOfTheBatch(0.0), NormOfTheBatch(1e6), NormOfTheBatch(-1e6), NormOfTheBatch(1e6, torch.float64),
        NormOfTheBatch(1e12, torch.float64), LastPlace(), HelpsCopies(2.0**18, 0.1), HelpsCopies(-(2.0**18), 0.1),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'dtype', '')} {getattr(model, 'added', '')}",
)  # fmt: skip
def test_who_looks_at_the_batch_is_refused_whatever_is_added_to_all_scores(model: nn.Module) -> None:
    with pytest.raises(InputError, match="model is not a fixed function") as refused:
        Smoothed(model, 3 if isinstance(model, NormOfTheBatch) else 2, Gaussian(0.25)).certify(X, QUICK)
    assert "another vote" in str(refused.value) or "score differences" in str(refused.value)


def test_votes_that_change_are_named() -> None:
    with pytest.raises(InputError, match=r"\d+ of 64 equal inputs got another vote in the company of other inputs"):
        Smoothed(LastPlace(), 2, Gaussian(0.25)).certify(X, QUICK)


class RowByRow(nn.Module):
    """A network that looks at each row alone; what is done to its scores is the same for every row."""

    def __init__(self, dtype: torch.dtype = torch.float32, *, times: float = 1.0, plus: float = 0.0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 8)).to(dtype)
        self.dtype, self.times, self.plus = dtype, times, plus

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x.to(self.dtype)) * self.times + self.plus
        return scores


class Masked(RowByRow):
    """Some classes are ruled out, as code with a mask does it."""

    def __init__(self, classes: int, *, plus: float = 0.0) -> None:
        super().__init__(plus=plus)
        self.mask = torch.where(torch.arange(8) < classes, -1e9, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = super().forward(x) + self.mask
        return scores


class OneHot(RowByRow):
    """As a classifier that only answers."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(super().forward(x).argmax(1), 8)


class Twins(RowByRow):
    """Every class twice: the first two scores of a row are always equal."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, [0, 0, 1, 1, 2, 2, 3, 3]]


@pytest.mark.parametrize("batch_size", [None, 1, 48])
@pytest.mark.parametrize(
    "model",
    [
        RowByRow(), RowByRow(times=1e6), RowByRow(times=1e-6), RowByRow(plus=1e4), RowByRow(plus=2.0**18),
        RowByRow(times=0),
        RowByRow(torch.float64, plus=1e9), RowByRow(torch.half), RowByRow(torch.bfloat16), Masked(2), Masked(6),
        Masked(6, plus=1e4), OneHot(), Twins(),
    ],
    ids=lambda model: f"{type(model).__name__} {model.dtype} {model.times} {model.plus}",
)  # fmt: skip
def test_who_looks_at_rows_alone_is_not_refused(model: nn.Module, batch_size: int | None) -> None:
    Smoothed(model, 8, Gaussian(0.25), batch_size=batch_size).certify(X, QUICK)


def test_rounding_is_that_of_the_type_and_what_all_classes_share_does_not_count() -> None:
    a = torch.tensor([[3.0, 1.0, -1e9], [0.0, 2.0, -1e9], [1.0, -1.0, -1e9]], dtype=torch.float64)
    apart = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    assert same_scores(a, a + 0.3), "as when one number is added to all classes"
    assert same_scores(a, a + 1e-3 * apart)
    assert not same_scores(a, a + 0.05 * apart)
    assert not same_scores(a + 2.0**18, a + 2.0**18 + 0.05 * apart)
    single, half = (a[:, :2] + 2.0**18).float(), (a[:, :2] + 2.0**9).half()
    assert same_scores(single, single + 2.0**-5 * apart[:, :2].float()), "one unit in the last place of 2^18"
    assert not same_scores(single, single + 2.0**-1 * apart[:, :2].float())
    assert same_scores(half, half + 2.0**-1 * apart[:, :2].half()), "one unit in the last place of 2^9"
    assert not same_scores(half.double(), half.double() + 2.0**-1 * apart[:, :2])
    assert not same_scores(a, a * torch.nan)
