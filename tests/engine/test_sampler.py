"""Replay: the noise of a draw, and the votes, are the same whatever the batch, the order, the workers."""

import hashlib
from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.models import Architecture, build
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import Ask, Certificate, Fixed, Predict

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


def seen(noise: Noise, x: Tensor, batch_size: int | None, workers: int = 1) -> Counter[bytes]:
    recorder = Recorder()
    smoothed = Smoothed(recorder, 2, noise, seed=5, batch_size=batch_size, workers=workers)
    with pytest.MonkeyPatch.context() as patch:  # the check of the model draws rows of its own
        patch.setattr("smoothcert.engine.checks.check_fixed", lambda *_: None)
        smoothed.certify(x, PROCEDURE)
    assert max(recorder.sizes) <= max(batch_size or 128, 1)
    return recorder.rows


NOISES = [Gaussian(0.5), Uniform(0.5), Laplace(0.5), Ablation(keep=0.7, values=2)]


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize("batch_size", [1, 7, 256, 1000])
def test_noise_is_bit_identical_for_every_batch_size(noise: Noise, batch_size: int) -> None:
    x = torch.randint(0, 2, (3, 6), generator=torch.Generator().manual_seed(0)).float()
    assert seen(noise, x, batch_size) == seen(noise, x, None)


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


def test_votes_are_identical_on_whole_blocks() -> None:
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
    smoothed = Smoothed(Recorder(), 2, Gaussian(0.5))
    next(iter(smoothed.certifying(torch.rand(50, 6), PROCEDURE, on_draws=draws.append)))
    assert sum(draws) < 3 * 350, "the first answer must not wait for all inputs"
    draws.clear()
    assert len(list(smoothed.certifying(torch.rand(5, 6), PROCEDURE, on_draws=draws.append))) == 5
    assert sum(draws) == 5 * 350


def test_a_wish_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="n must be at least 1"):
        Ask("bound", 0)


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
