"""Replay: the noise of a draw, and the votes, are the same whatever the batch, the order, the workers."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import BY_ROW, RowStream, input_id
from smoothcert.engine import Compiled, Smoothed
from smoothcert.engine.checks import PackingCheck, SplitCheck
from smoothcert.engine.pieces import Batch, Counts
from smoothcert.models import Architecture, build
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import Ask, Certificate, Conversation, Fixed, Geometry, Predict, Procedure

PROCEDURE = Fixed(n0=50, n=300)


class Recorder:
    """A classifier that remembers which rows it has seen."""

    def __init__(self) -> None:
        self.rows: Counter[bytes] = Counter()
        self.sizes: set[int] = set()

    def __call__(self, x: Tensor) -> Tensor:
        self.sizes.add(len(x))
        self.rows.update(hashlib.sha256(row.numpy().tobytes()).digest() for row in x)
        return torch.stack([x.flatten(1).sum(1), x.flatten(1)[:, 0]], dim=1)


def seen(noise: Noise, x: Tensor, batch_size: int | None, workers: int = 1, packed: bool = True) -> Counter[bytes]:
    recorder = Recorder()
    smoothed = Smoothed(recorder, 2, noise, seed=5, batch_size=batch_size, workers=workers)
    with pytest.MonkeyPatch.context() as patch:  # the checks of the model draw rows of their own
        patch.setattr("smoothcert.engine.checks.check_fixed", lambda *_: None)
        patch.setattr("smoothcert.engine.checks.rows_are_independent", lambda *_, **__: packed)
        smoothed.certify(x, PROCEDURE)
    assert max(recorder.sizes) <= (batch_size or 4096)
    return recorder.rows


NOISES = [Gaussian(0.5), Uniform(0.5), Laplace(0.5), Ablation(keep=0.7, values=2)]


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize("batch_size", [1, 7, 256, 1000])
def test_noise_is_bit_identical_for_every_batch_size(noise: Noise, batch_size: int) -> None:
    x = torch.randint(0, 2, (3, 6), generator=torch.Generator().manual_seed(0)).float()
    assert seen(noise, x, batch_size) == seen(noise, x, None) == seen(noise, x, batch_size, packed=False)


def test_noise_is_bit_identical_for_permuted_inputs_and_workers() -> None:
    x = torch.rand(5, 6, generator=torch.Generator().manual_seed(0))
    once = seen(Gaussian(0.5), x, None)
    assert seen(Gaussian(0.5), x[torch.tensor([3, 1, 4, 0, 2])], 1000) == once
    assert seen(Gaussian(0.5), x, None, workers=3) == once
    parts = seen(Gaussian(0.5), x[:2], None) + seen(Gaussian(0.5), x[2:], None)
    assert parts == once, "inputs certified in two goes"


def net() -> nn.Module:
    return build(Architecture("lenet", 10, (1, 28, 28)), seed=0)


def votes(certificates: list[Certificate]) -> list[tuple[tuple[int, ...], ...]]:
    return [tuple(tally.votes for tally in c.tallies.values()) for c in certificates]


def test_votes_are_identical_whatever_the_workers_and_the_order() -> None:
    """The default on a CPU: order, workers, and what else is certified do not change one vote."""
    x = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    model = net()
    once = votes(Smoothed(model, 10, Gaussian(0.5), workers=1).certify(x, PROCEDURE))
    assert votes(Smoothed(model, 10, Gaussian(0.5), workers=2).certify(x, PROCEDURE)) == once
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert votes(Smoothed(model, 10, Gaussian(0.5), workers=1).certify(x, PROCEDURE)) == once
    backwards = votes(Smoothed(model, 10, Gaussian(0.5), workers=2).certify(x.flip(0), PROCEDURE))
    assert backwards[::-1] == once
    assert [votes(Smoothed(model, 10, Gaussian(0.5)).certify(one[None], PROCEDURE))[0] for one in x] == once
    assert votes(Smoothed(model, 10, Gaussian(0.5), seed=1).certify(x, PROCEDURE)) != once


@pytest.mark.slow
def test_votes_across_batch_sizes_differ_only_at_ties() -> None:
    """At most 1 draw in 1e5 may fall otherwise, where two scores tie within rounding: here none of 20_000."""
    x = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    model = net()
    counts = [
        [votes(Smoothed(model, 10, Gaussian(0.5), batch_size=size).certify(x, Fixed(n=10_000)))[i][1] for i in range(2)]
        for size in (None, 50, 1000)
    ]
    for other in counts[1:]:
        moved = sum(abs(a - b) for i in range(2) for a, b in zip(counts[0][i], other[i], strict=True)) // 2
        assert moved <= 20_000 / 1e5 + 1e-9


def test_purposes_never_share_a_draw() -> None:
    """Trap 1 at the engine: rows of choosing, bounding and predicting are all different."""
    recorder = Recorder()
    smoothed = Smoothed(recorder, 2, Gaussian(0.5))
    x = torch.rand(1, 6)
    smoothed.certify(x, PROCEDURE)
    smoothed.predict(x, Predict(n=200))
    checking = Recorder()
    Smoothed(checking, 2, Gaussian(0.5)).check(x)
    counts = [count for row, count in recorder.rows.items() if row not in checking.rows]
    assert counts == [1] * (50 + 300 + 200), "besides those that check the model, no row is seen twice"


def test_exactly_n_draws_are_counted() -> None:
    for n in (100, 127, 128, 129, 300):
        certificate = Smoothed(Recorder(), 2, Gaussian(0.5)).certify(torch.rand(6), Fixed(n0=33, n=n))[0]
        assert certificate.tallies["choose"].draws == 33
        assert certificate.tallies["bound"].draws == n
        assert certificate.draws == 33 + n


def test_progress_counts_every_draw_and_answers_come_as_they_are_ready() -> None:
    draws: list[int] = []
    smoothed = Smoothed(Recorder(), 2, Gaussian(0.5), batch_size=128)
    next(iter(smoothed.certifying(torch.rand(50, 6), PROCEDURE, on_draws=draws.append)))
    assert sum(draws) < 3 * 350, "the first answer must not wait for all inputs"
    draws.clear()
    assert len(list(smoothed.certifying(torch.rand(5, 6), PROCEDURE, on_draws=draws.append))) == 5
    assert sum(draws) == 5 * 350


def test_a_wish_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="n must be at least 1"):
        Ask("bound", 0)
    with pytest.raises(InputError, match="further must be 0"):
        Ask("bound", 1, further=-1)


def test_between_answers_the_callers_threads_are_the_callers() -> None:
    """Two loops at once, each of one worker: what one of them sets for its own work must not stay."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        loops = [
            Smoothed(nn.Linear(6, 2), 2, Gaussian(0.5), workers=1).certifying(torch.rand(3, 6), PROCEDURE) for _ in "ab"
        ]
        for _ in zip(*loops, strict=True):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class ShapeSensitive(nn.Module):
    """Adds what no kernel should: something that depends on how many rows a call has."""

    def __init__(self, moved: float) -> None:
        super().__init__()
        self.layer, self.moved = nn.Linear(6, 2), moved

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x) + torch.tensor([self.moved * (len(x) < 128), 0.0])
        return scores


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("moved", [0.0, 3.0])
def test_few_draws_are_spread_over_the_workers_where_no_bit_of_a_score_changes(
    workers: int, moved: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_per_call, once = [], Batch.run

    def noting(batch: Batch, compiled: Compiled, runner: Model) -> Counts:
        rows_per_call.append(batch.rows_per_call)
        return once(batch, compiled, runner)

    monkeypatch.setattr(Batch, "run", noting)
    x = torch.rand(2, 6, generator=torch.Generator().manual_seed(0))
    one, several = (
        Smoothed(model, 2, Gaussian(0.5), workers=n, batch_size=128)
        for model in [ShapeSensitive(moved)]
        for n in (1, workers)
    )
    part, compiled = {2: 50, 3: 34}[workers], one.compile((6,))  # a hundred draws in equal parts
    packed = PackingCheck(x[0], Gaussian(0.5), 0).run(compiled, compiled.executable.new_runner())
    alike = packed and SplitCheck(part).run(compiled, compiled.executable.new_runner())
    assert not moved or not alike

    def calls(n: int) -> list[int]:
        rows_per_call.clear()
        found = several.predict(x[:1], Predict(n=n))
        seen = list(rows_per_call)
        assert found == one.predict(x[:1], Predict(n=n))
        return seen

    assert calls(100) == calls(100) == [128], "who asks once or twice would pay more for a look than is won"
    assert calls(100) == calls(100) == ([part] * workers if alike else [128])
    assert calls(500)[:3] == [128] * 3, "enough draws for all workers"
    assert several.certify(x, Fixed(n0=100, n=700)) == one.certify(x, Fixed(n0=100, n=700))


@dataclass(frozen=True)
class OddAsks(Procedure):
    """Asks for numbers of draws that are no multiples of anything, of two purposes in turn."""

    name: ClassVar[str] = "odd"
    asks: tuple[int, ...] = (1, 16, 3, 37, 128, 5, 131, 1)

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        for number, n in enumerate(self.asks):
            yield Ask(("choose", "bound")[number % 2], n)
        return Certificate(label=0, radius=0.0, p_lower=0.0, norm=noise.norm, alpha=0.5, reason="", procedure={})

    def most_draws(self) -> int:
        return sum(self.asks)

    def fixed_draws(self) -> int:
        return sum(self.asks)


GRID = Gaussian(0.5, grid=1 / 255)


class Placed(nn.Module):
    """Its scores change a little with the place in the call: rounding that no check refuses, and that decides votes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)
        nn.init.constant_(self.layer.weight, 2.0**-8)  # near ties

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x) + torch.tensor([2.0**-28, 0.0]) * (torch.arange(len(x)) % 7)[:, None]
        return scores


@pytest.mark.parametrize("noise", [GRID, Gaussian(0.5)], ids=str)
@pytest.mark.parametrize("kind", ["module", "placed", "function"])
def test_odd_numbers_of_draws_replay_whatever_the_company(noise: Noise, kind: str) -> None:
    """Answer by answer: alone or among others, in any order, by one worker or several, in parts or at once."""
    x = (torch.rand(5, 6, generator=torch.Generator().manual_seed(0)) * 255).round() / 255
    torch.manual_seed(0)
    layer = nn.Linear(6, 2)
    model: Model = {"module": layer, "placed": Placed(), "function": lambda v: v @ layer.weight.detach().T}[kind]

    def answers(rows: Tensor, workers: int) -> list[object]:
        g = Smoothed(model, 2, noise, workers=workers, batch_size=128)
        return [c.answers for c in g.certify(rows, OddAsks()) for _ in (g.predict(rows[:1], Predict(n=77)),)]

    once = answers(x, 1)
    assert answers(x.flip(0), 2)[::-1] == once
    assert [answers(one[None], 3)[0] for one in x] == once
    again = Smoothed(model, 2, noise, workers=2, batch_size=128)
    for _ in range(3):  # at the second call other shapes may be tried
        assert [c.answers for c in again.certify(x, OddAsks())] == once
        assert [again.certify(one, OddAsks())[0].answers for one in x[:2]] == once[:2]


def test_a_purpose_goes_on_at_the_next_row() -> None:
    """Rows of all asks of a purpose are rows 0, 1, 2, ... of its stream: none is repeated, none left out."""
    x = torch.rand(6, generator=torch.Generator().manual_seed(0))
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smoothcert.engine.checks.check_fixed", lambda *_: None)
        Smoothed(recorder, 2, Gaussian(0.5), seed=5).certify(x, OddAsks())
    wanted: Counter[bytes] = Counter()
    for purpose, n in (("choose", 1 + 3 + 128 + 131), ("bound", 16 + 37 + 5 + 1)):
        for row in range(n):  # one at a time
            out = torch.empty(1, 6)
            Gaussian(0.5).draw_rows(x, RowStream(5, input_id(x), purpose), row, out)
            wanted[hashlib.sha256(out[0].numpy().tobytes()).digest()] += 1
    assert recorder.rows == wanted


@pytest.mark.parametrize("noise", [GRID, Laplace(0.5)], ids=str)
def test_votes_are_drawn_again_from_the_record_alone(noise: Noise) -> None:
    """Seed, input, purpose and numbers of draws stand in a certificate: with the model, that is all it takes."""
    torch.manual_seed(1)
    layer = nn.Linear(6, 3)
    x = (torch.rand(2, 6) * 255).round() / 255
    for row, certificate in enumerate(Smoothed(layer, 3, noise, seed=11).certify(x, OddAsks())):
        assert certificate.stream == BY_ROW
        again, used = Noise.from_description(certificate.noise), Counter[str]()
        for purpose, tally in certificate.answers:
            out = torch.empty(tally.draws, 6)
            stream = RowStream(certificate.seed, certificate.input_id, purpose)
            again.draw_rows(x[row], stream, used[purpose], out)
            used[purpose] += tally.draws
            with torch.no_grad():
                votes = layer(out).argmax(dim=1).bincount(minlength=3)
            assert tuple(votes.tolist()) == tally.votes
