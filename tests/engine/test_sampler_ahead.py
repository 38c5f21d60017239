"""Draws made ahead by idle workers: nothing that is answered, recorded or counted changes by them."""

import functools
import math
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.model import Model
from smoothcert.engine import Compiled, MemberCalls, Smoothed
from smoothcert.engine.input_progress import AHEAD, InputProgress
from smoothcert.engine.pieces import Batch, Counts, Piece
from smoothcert.engine.pools import Work, crew_session
from smoothcert.engine.pools.threads import _ThreadSession
from smoothcert.procedures import Ask, Certificate, Conversation, Geometry, Procedure, Sequential

X = torch.rand(5, 6, generator=torch.Generator().manual_seed(1))
NOISE = sc.Gaussian(0.4, grid=1 / 255)
SEQUENTIAL = Sequential(radius=(0.1, 0.2), n=3_000)


@dataclass(frozen=True)
class OddAsks(Procedure):
    """Asks for odd numbers of draws, of two purposes in turn, and may stop long before it has asked for all."""

    name: ClassVar[str] = "odd"
    asks: tuple[int, ...] = (3, 16, 1, 37, 128, 5, 131, 1, 300, 1000)
    most: int = 10**6
    beta: float | None = None

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        for number, n in enumerate(self.asks):
            yield Ask(("choose", "bound")[number % 2], n, self.beta, further=self.most)
        return Certificate(label=0, radius=0.0, p_lower=0.0, norm=noise.norm, alpha=0.5, reason="", procedure={})

    def most_draws(self) -> int:
        return sum(self.asks) + self.most

    def fixed_draws(self) -> int:
        return sum(self.asks)


class RowByRow(nn.Module):
    """A linear layer without a product of matrices, whose rows may depend on their company in the last bit."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Tensor) -> Tensor:
        parts = (x[:, :, None] * self.weight).unbind(1)  # (B, 3) each
        return functools.reduce(torch.add, parts)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """All pieces that are run in this process."""
    # One call at a time: with several, how much is left to draw ahead depends on the clock.
    monkeypatch.setattr("smoothcert.engine.sampler.WORK_SECONDS", 0.0)
    found, once = list[Piece](), Batch.run

    def noting(batch: Batch, compiled: Compiled, runner: Model) -> Counts:
        found.extend(batch.pieces)
        return once(batch, compiled, runner)

    monkeypatch.setattr(Batch, "run", noting)
    return found


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are done one after the other: what is free to draw ahead then depends on no clock."""
    once = _ThreadSession.submit

    def waiting(session: _ThreadSession, work: Work[Any]) -> Future[Any]:
        future = once(session, work)
        wait([future])
        return future

    monkeypatch.setattr(_ThreadSession, "submit", waiting)


Without = Callable[[], Any]


@pytest.fixture
def without() -> Callable[[Without], Any]:
    """Do something without any draw made ahead."""

    def do(what: Without) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(InputProgress, "room_ahead", lambda *_, **__: 0)
            return what()

    return do


@pytest.mark.parametrize("procedure", [SEQUENTIAL, OddAsks()], ids=lambda p: p.name)
@pytest.mark.parametrize(("kind", "workers"), [("module", 1), ("module", 2), ("module", 5), ("function", 3)])
def test_answers_and_counts_of_draws_are_those_without(
    procedure: Procedure,
    kind: str,
    workers: int,
    ran: list[Piece],
    without: Callable[[Without], Any],
    request: pytest.FixtureRequest,
) -> None:
    layer = RowByRow()
    model: Model = layer if kind == "module" else layer.forward
    g = Smoothed(model, 3, NOISE, workers=workers, batch_size=96)

    def certified(x: Tensor) -> tuple[list[Certificate], int]:
        drawn = list[int]()
        found = sorted(g.certifying(x, procedure, on_draws=drawn.append), key=lambda pair: pair[0])
        return [certificate for _, certificate in found], sum(drawn)

    wanted = without(lambda: certified(X))
    assert not any(piece.ahead for piece in ran)
    assert wanted[1] == sum(certificate.draws for certificate in wanted[0])
    for _ in range(2):
        assert certified(X) == wanted
        assert [certified(one[None])[0][0] for one in X] == wanted[0]
    request.getfixturevalue("in_order")
    ran.clear()
    assert certified(X) == wanted
    assert any(piece.ahead for piece in ran)


def test_every_draw_is_made_once_and_in_order(ran: list[Piece]) -> None:
    g = Smoothed(RowByRow(), 3, NOISE, workers=2, batch_size=96)
    g.certify(X, OddAsks())
    for purpose, least in (("choose", 3 + 1 + 128 + 131 + 300), ("bound", 16 + 37 + 5 + 1 + 1000)):
        for input_id in {piece.input_id for piece in ran}:
            own = [piece for piece in ran if (piece.input_id, piece.purpose) == (input_id, purpose)]
            numbers = sorted(number for piece in own for number in range(piece.first, piece.first + piece.rows))
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= least


@pytest.mark.usefixtures("in_order")
def test_little_is_drawn_for_nothing_and_nothing_beyond_what_may_be_asked_for(ran: list[Piece]) -> None:
    """A function's calls are not padded: there no place is free, and all that is made ahead is a bounded share."""
    layer = RowByRow()
    g = Smoothed(layer.forward, 3, NOISE, workers=3, batch_size=96)
    drawn = sum(certificate.draws for certificate in g.certify(X, OddAsks()))
    assert drawn < sum(piece.rows for piece in ran) <= math.ceil((1 + AHEAD) * drawn)
    ran.clear()
    drawn = sum(certificate.draws for certificate in g.certify(X, OddAsks(most=0)))
    assert drawn == sum(piece.rows for piece in ran)
    ran.clear()
    certificates = Smoothed(RowByRow(), 3, NOISE, workers=2).certify(X, SEQUENTIAL)
    assert any(piece.ahead for piece in ran)
    assert all(piece.first + piece.rows <= SEQUENTIAL.n0 for piece in ran if piece.purpose == "choose")
    assert all(certificate.tallies["choose"].draws <= SEQUENTIAL.n0 for certificate in certificates)


def test_scores_and_members_are_never_asked_for_ahead(ran: list[Piece]) -> None:
    """Sums of scores cannot be taken apart again, and what members were asked about is counted."""
    Smoothed(RowByRow(), 3, NOISE, workers=2).certify(X, OddAsks(beta=1.0))
    calls = MemberCalls()
    ensemble = sc.SoftVoting([RowByRow(), nn.Linear(6, 3)])
    certificates = Smoothed(ensemble, 3, NOISE, workers=2).certify(X, SEQUENTIAL, member_calls=calls)
    assert calls.per_member == (sum(certificate.draws for certificate in certificates),) * 2
    assert not any(piece.ahead for piece in ran)


def test_an_interrupt_leaves_no_work_behind(ran: list[Piece]) -> None:
    """Ctrl-C while draws are under way that nobody asked for: afterwards all is still, and the next call is right."""
    g = Smoothed(RowByRow(), 3, NOISE, workers=2, batch_size=96)
    wanted = g.certify(X, SEQUENTIAL)

    def interrupt(_: int) -> None:
        if any(piece.ahead for piece in ran) or len(ran) > 20:
            raise KeyboardInterrupt

    for _ in range(3):
        ran.clear()
        with pytest.raises(KeyboardInterrupt):
            list(g.certifying(X, SEQUENTIAL, on_draws=interrupt))
        ran.clear()
        g.certify(X, sc.Fixed(n=500))  # workers do what is left in their queue before they do this
        assert not any(piece.ahead for piece in ran)
        assert g.certify(X, SEQUENTIAL) == wanted


def test_processes_that_are_killed_lose_nothing_that_was_made_ahead() -> None:
    one, two = (Smoothed(RowByRow(), 3, NOISE, pool=pool) for pool in (sc.Threads(1), sc.Processes(2)))
    try:
        found = dict(two.certifying(X, OddAsks()))
        killing = two.certifying(X.flip(0), replace(SEQUENTIAL, n=50_000))
        first = next(killing)
        worker = next(one for one in multiprocessing.active_children() if one.name.startswith("smoothcert-worker-"))
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        rest = dict([first, *killing])
    finally:
        crew_session.close_all()
    assert [found[row] for row in range(len(X))] == one.certify(X, OddAsks())
    assert [rest[row] for row in range(len(X))] == one.certify(X.flip(0), replace(SEQUENTIAL, n=50_000))
