"""Workers of quick models are given several calls at once: which changes no vote, and no company of a row."""

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.model import Model
from smoothcert.engine import Compiled, Smoothed
from smoothcert.engine import sampler as module
from smoothcert.engine.pieces import Batch, Counts
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed
from smoothcert.stats import Tally

PROCEDURE, ROWS = Fixed(n0=50, n=5000), 16


class Placed(nn.Module):
    """Scores that depend on how many rows share a call: rows are never packed, and company must stay the same."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -1.0], [0.5, 0.25]]))

    def forward(self, x: Tensor) -> Tensor:
        scores = x.flatten(1)[:, :2] @ self.weight
        return scores + 1e-7 * torch.arange(len(x))[:, None] * torch.tensor([1.0, -1.0])


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """Every batch that was run."""
    found: list[Batch] = []
    plain = Batch.run

    def run(self: Batch, compiled: Compiled, runner: Model) -> Counts:
        found.append(self)
        return plain(self, compiled, runner)

    monkeypatch.setattr(Batch, "run", run)
    return found


def certified(model: nn.Module, x: Tensor, workers: int) -> list[Certificate]:
    g = Smoothed(model, 2, Gaussian(0.5), seed=3, batch_size=ROWS, workers=workers, input_shape=(4,))
    return list(g.certify(x, PROCEDURE))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "by itself"])
def test_votes_are_those_of_one_call_at_a_time(
    ran: list[Batch], monkeypatch: pytest.MonkeyPatch, packed: bool, workers: int
) -> None:
    torch.manual_seed(0)
    model, x = (nn.Linear(4, 2) if packed else Placed()), torch.rand(3, 4)
    monkeypatch.setattr(module, "WORK_SECONDS", 0.0)
    once = certified(model, x, workers)
    assert all(batch.rows <= ROWS for batch in ran)
    ran.clear()
    monkeypatch.setattr(module, "WORK_SECONDS", 1e6)
    assert certified(model, x, workers) == once
    assert max(batch.rows for batch in ran) == module.MOST_CALLS * ROWS
    assert {batch.rows_per_call for batch in ran} <= {*range(1, ROWS + 1)}


def test_work_shrinks_towards_the_end_and_with_the_size_of_inputs(
    ran: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(module, "WORK_SECONDS", 1e6)
    certified(nn.Linear(4, 2), torch.rand(4), 1)
    assert max(batch.rows for batch in ran[-3:]) <= 2 * ROWS
    ran.clear()
    monkeypatch.setattr(module, "MOST_BYTES", 3 * ROWS * 4 * 4)
    certified(nn.Linear(4, 2), torch.rand(4), 1)
    assert max(batch.rows for batch in ran) == 3 * ROWS


def test_all_calls_are_full_where_draws_fill_them(ran: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times 50 draws, which are no whole number of calls, then 5006 each: 316 whole calls in all.

    While all workers are at work, what does not fill a call waits; then it goes first, as its input waits for it.
    """
    torch.manual_seed(0)
    monkeypatch.setattr(module, "WORK_SECONDS", 0.0)
    g = Smoothed(nn.Linear(4, 2), 2, Gaussian(0.5), seed=3, batch_size=64, workers=2, input_shape=(4,))
    g.certify(torch.rand(4, 4), Fixed(n0=50, n=5006))
    assert [batch.rows for batch in ran] == [64] * 316


class PlacedInUnits(nn.Module):
    """Votes that depend on a row's place among eight: as if calls were run in pieces of eight rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -1.0], [0.5, 0.25]]))

    def forward(self, x: Tensor) -> Tensor:
        scores = x.flatten(1)[:, :2] @ self.weight
        return scores + 0.2 * (torch.arange(len(x)) % 8)[:, None] * torch.tensor([1.0, -1.0])


@pytest.mark.parametrize("n", [7, 30, 100, 1000])
def test_a_request_is_shared_by_idle_workers_in_whole_units(
    ran: list[Batch], monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """What a runner cuts into units anyway may be cut between them, whoever runs it: not a vote changes."""
    monkeypatch.setattr(module, "WORK_SECONDS", 0.0)
    monkeypatch.setattr("smoothcert.engine.checks.FixedFunctionCheck.run", lambda *_: None)
    x = torch.tensor([0.1, -0.1, 0.0, 0.0])

    def votes(unit: int, workers: int, rows: int = 128) -> tuple[tuple[str, Tally], ...]:
        monkeypatch.setattr(Compiled, "unit", unit)
        ran.clear()
        g = Smoothed(PlacedInUnits(), 2, Gaussian(0.5), seed=3, batch_size=rows, workers=workers, input_shape=(4,))
        (found,) = g.certify(x[None], Fixed(n0=50, n=n, alpha=0.05))
        return found.answers

    whole = votes(unit=128, workers=1)
    assert votes(unit=8, workers=2) == whole
    pieces = sorted((piece.purpose, piece.first, piece.rows) for batch in ran for piece in batch.pieces)
    assert sum(rows for *_, rows in pieces) == 50 + n
    assert all(first % 8 == 0 and rows <= 128 for _, first, rows in pieces)
    of_class = [(first, rows) for purpose, first, rows in pieces if purpose == "choose"]
    assert of_class == [(0, 32), (32, 18)], "an equal share in whole units, and the rest"
    if n > 8:
        assert votes(unit=1, workers=2) != whole, "cut anywhere, rows would stand at other places"
