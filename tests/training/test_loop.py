import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import (
    Augment,
    Constant,
    Epoch,
    Session,
    Settings,
    Step,
    hold_out,
    noisy_accuracy,
    session,
    train,
)
from smoothcert.training.objectives import MACER, Denoising, Gaussian, Objective, SmoothAdv
from smoothcert.training.statistics import RunningStatistics, sizes


def data() -> tuple[Tensor, Tensor]:
    """Two clouds that a line separates."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(400) % 2).long()
    return x + 4 * y[:, None] - 2, y


def model(*extra: nn.Module) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *extra, nn.Linear(8, 2))


def images(size: int = 12, channels: int = 1) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    return torch.rand(size, channels, 8, 8, generator=chance), torch.randint(0, 10, (size,), generator=chance)


def test_the_objective_is_cross_entropy_on_a_noisy_copy() -> None:
    x, y = data()
    net, noise = model(), GaussianNoise(0.5)
    expected = F.cross_entropy(net(noise.draw(x, generator(0, "t", "t", 0))), y)
    assert torch.equal(Gaussian(noise).loss(net, x, y, generator(0, "t", "t", 0)), expected)


def test_training_learns_and_is_repeatable() -> None:
    x, y = data()
    nets, epochs = [model(), model()], list[Epoch]()
    for net in nets:
        train(net, (x, y), Gaussian(GaussianNoise(0.5)), epochs=5, seed=3, on_epoch=epochs.append)
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    assert epochs[4].loss < 0.1 < epochs[0].loss
    assert (epochs[4].number, epochs[4].epochs) == (5, 5)
    assert epochs[4].terms == {"cross-entropy": epochs[4].loss}
    assert float((nets[0](x).argmax(1) == y).float().mean()) > 0.97
    assert not nets[0].training
    other = model()
    train(other, (x, y), Gaussian(GaussianNoise(0.5)), epochs=5, seed=4)
    assert not torch.equal(next(other.parameters()), next(nets[0].parameters()))


def test_divergence_and_bad_arguments_are_said() -> None:
    x, y = data()
    with pytest.raises(InputError, match=r"became .* in epoch 1: training has diverged, lower lr"):
        train(model(), (x * 1e20, y), Gaussian(GaussianNoise(0.5)), epochs=3, lr=1e30)
    with pytest.raises(InputError, match=r"data must be .* 400 inputs and 3 labels"):
        train(model(), (x, y[:3]), Gaussian(GaussianNoise(0.5)), epochs=1)
    with pytest.raises(InputError, match=r"validation must be .* 0 inputs"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, validation=(x[:0], y[:0]))
    for wrong in ({"epochs": 0}, {"lr": 0}, {"lr": math.inf}, {"batch_size": -1}, {"chunk": 0}):
        with pytest.raises(InputError, match="must be positive"):
            train(model(), (x, y), Gaussian(GaussianNoise(0.5)), **{"epochs": 1} | wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="momentum must lie in"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, momentum=1.0)
    with pytest.raises(InputError, match="weight_decay be finite"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, weight_decay=math.inf)
    with pytest.raises(InputError, match="nesterov needs a momentum"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, momentum=0.0)


X, Y = data()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": ((X * 10).byte(), Y)}, r"inputs of data must be float32, got torch.uint8; .* x.float\(\) / 255"),
        ({"data": (X.double(), Y)}, r"inputs of data must be float32, got torch.float64; give x.float\(\)"),
        ({"data": (X / 0, Y)}, "inputs of data must be finite"),
        ({"data": (X, Y.float())}, "labels of data must be int64 .* got torch.float32"),
        ({"data": (X, Y - 1)}, r"labels of data must be int64 numbers of classes from 0, .* the least -1"),
        ({"data": (X, Y[:, None])}, r"labels of data must be .* got torch.int64 \(400, 1\)"),
        ({"data": (X, Y * 7)}, "data has the label 7, but the model answers the 2 classes 0 to 1"),
        ({"validation": (X, Y + 1)}, "validation has the label 2, but the model answers the 2 classes"),
        ({"model": nn.Linear(2, 1)}, r"a score for each of two or more classes, \(B, C\), got \(1, 1\)"),
        ({"model": nn.Flatten()}, "model has no parameters that require a gradient"),
        ({"model": model().requires_grad_(False)}, "model has no parameters that require a gradient"),
        ({"objective": "gaussian"}, "objective must be one of smoothcert.training.objectives, got 'gaussian'"),
        ({"schedule": "cosine"}, "schedule must be a Schedule, such as .* got 'cosine'"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_the_door(given: dict[str, Any], words: str) -> None:
    net = model()
    options = {"model": net, "data": (X, Y), "objective": Gaussian(GaussianNoise(0.5)), "epochs": 1} | given
    with pytest.raises(InputError, match=words):
        train(**options)
    assert torch.equal(next(net.parameters()), next(model().parameters()))


def test_a_model_that_does_not_classify_may_have_any_labels() -> None:
    history = train(nn.Linear(2, 2), (X, Y + 9), Denoising(GaussianNoise(0.5)), epochs=1)
    assert math.isfinite(history[0].loss)


def test_volumes_can_be_trained_on() -> None:
    x = torch.rand(8, 1, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Flatten(), nn.Linear(16, 2))
    history = train(net, (x, torch.arange(8) % 2), Gaussian(GaussianNoise(0.5)), epochs=2, batch_size=4)
    assert len(history) == 2


def test_the_model_is_asked_for_its_classes_without_a_trace() -> None:
    net = model(nn.BatchNorm1d(8), nn.Dropout())
    net[2].eval()
    before, chance = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    Session(net, data(), Gaussian(GaussianNoise(0.5)), Settings(1), None, None)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [part.training for part in net] == [True, True, False, True, True]  # type: ignore[attr-defined]
    assert torch.equal(torch.get_rng_state(), chance)


def test_weights_that_the_last_step_broke_are_said_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the weights became infinite or nan in epoch 1: training has diverged"):
        train(
            model(), data(), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=400, lr=3e38, schedule=Constant(),
            weight_decay=1e3, state=tmp_path / "state.safetensors",
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pace", "looks", "first"),
    [(0.001, [1, 51, 100], None), (1.0, [1, *range(6, 100, 5), 100], 51), (60.0, list(range(1, 101)), 1)],
)
def test_slow_steps_are_looked_at_more_often_with_the_same_result(
    pace: float, looks: list[int], first: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock, done, seen, saved = 0.0, 0, [], []
    state = tmp_path / "state.safetensors"
    look = Session._look

    def on_step(_done: int, _total: int) -> None:
        nonlocal clock, done
        clock, done = clock + pace, done + 1
        saved.append(state.exists())

    def counted(self: Session, since: float, taken: int) -> float:
        seen.append(done)
        return look(self, since, taken)

    plain = train(model(), data(), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=4)
    monkeypatch.setattr(session, "time", SimpleNamespace(perf_counter=lambda: clock))
    monkeypatch.setattr(Session, "_look", counted)
    net = model()
    slow = train(
        net, data(), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=4, state=state, save_every=50, on_step=on_step
    )
    assert seen == looks
    assert (saved.index(True) if any(saved) else None) == first, "after 50 seconds"
    assert (slow[0].loss, slow[0].terms) == (plain[0].loss, plain[0].terms)


@dataclasses.dataclass(frozen=True)
class Fragile(Objective):
    """Its second term breaks in the second epoch, its first right after."""

    name: ClassVar[str] = "fragile"

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        broken = math.inf if self.epoch is not None and self.epoch >= 1.5 else 0.0
        scores = model(x)
        return {"calm": F.cross_entropy(scores, y), "wild": broken * scores.square().mean()}


def test_the_term_that_broke_first_is_named_with_its_epoch() -> None:
    with pytest.raises(InputError, match="term 'wild' became inf in epoch 2"):
        train(model(), data(), Fragile(GaussianNoise(0.5)), epochs=4)


def test_one_step_is_sgd_with_nesterov_by_hand() -> None:
    x, y = data()
    net, hand = model(), model()
    options = {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.01}
    train(
        net, (x, y), Gaussian(GaussianNoise(0.5)), epochs=2, batch_size=400, seed=5,
        schedule=Step(milestones=(1,)), **options,  # type: ignore[arg-type]
    )  # fmt: skip
    velocity = [torch.zeros_like(p) for p in hand.parameters()]
    for epoch, lr in enumerate((0.05, 0.005)):
        order = torch.randperm(400, generator=generator(5, "train", "order", epoch))
        noisy = GaussianNoise(0.5).draw(x[order], generator(5, "train", f"noise/{epoch}/0", 0))
        gradients = torch.autograd.grad(F.cross_entropy(hand(noisy), y[order]), list(hand.parameters()))
        with torch.no_grad():
            for p, g, v in zip(hand.parameters(), gradients, velocity, strict=True):
                decayed = g + 0.01 * p
                v.mul_(0.8).add_(decayed)
                p.sub_(lr * (decayed + 0.8 * v))
    for a, b in zip(net.parameters(), hand.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_chunks_add_up_to_the_batch() -> None:
    """Without noise to speak of, the chunks of a batch give the gradient of the batch within rounding."""
    x, y = images(50)
    spec = Architecture("lenet", 10, (1, 8, 8))
    quiet = Gaussian(GaussianNoise(1e-12))
    nets = []
    for chunk in (None, 16, 5, 1):
        net = build(spec, seed=0)
        train(net, (x, y), quiet, epochs=2, batch_size=20, chunk=chunk, lr=0.05)
        nets.append(net)
    for net in nets[1:]:
        for a, b in zip(nets[0].parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_running_statistics_move_once_per_batch_by_the_mean_over_chunks() -> None:
    norm = nn.BatchNorm2d(2)
    x = torch.rand(10, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    statistics = RunningStatistics(norm)
    statistics.start()
    for part in (x[:6], x[6:]):
        with statistics.chunk(len(part) / 10):
            norm(part)
    statistics.end()
    means = 0.6 * x[:6].mean(dim=(0, 2, 3)) + 0.4 * x[6:].mean(dim=(0, 2, 3))
    torch.testing.assert_close(norm.running_mean, 0.1 * means)
    variances = 0.6 * x[:6].transpose(0, 1).flatten(1).var(1) + 0.4 * x[6:].transpose(0, 1).flatten(1).var(1)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * variances)
    assert int(norm.num_batches_tracked or 0) == 1


@pytest.mark.parametrize("passes", [1, 2])
def test_statistics_without_momentum_do_not_depend_on_chunks(passes: int) -> None:
    """Equal chunks: the mean over all batches, and as many of them as without chunks."""
    x = torch.rand(3, 8, 2, generator=torch.Generator().manual_seed(0))
    whole, parts = nn.BatchNorm1d(2, momentum=None), nn.BatchNorm1d(2, momentum=None)
    statistics = RunningStatistics(parts)
    for batch in x:
        statistics.start()
        for part in batch.split(4):
            with statistics.chunk(0.5):
                for _ in range(passes):
                    parts(part)
        statistics.end()
        for _ in range(passes):
            whole(batch)
    assert int(parts.num_batches_tracked or 0) == int(whole.num_batches_tracked or 0) == 3 * passes
    torch.testing.assert_close(parts.running_mean, whole.running_mean)


def test_a_single_row_joins_the_part_before_it() -> None:
    assert (sizes(8, 3), sizes(7, 3), sizes(6, 3)) == ([3, 3, 2], [3, 4], [3, 3])
    assert (sizes(1, 3), sizes(3, 1), sizes(2, 3)) == ([1], [1, 1, 1], [2])
    net, steps = model(nn.BatchNorm1d(8)), list[int]()
    x, y = data()
    for chunk in (None, 3):
        train(
            net, (x[:9], y[:9]), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=4, chunk=chunk,
            on_step=lambda _done, total: steps.append(total),
        )  # fmt: skip
    assert steps == [2] * 4


def test_emulated_bfloat16_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Session(model(), data(), Gaussian(GaussianNoise(0.5)), Settings(1), None, None)
    one.device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not one.settings.mixed_on(one.device)


def test_validation_is_accuracy_under_the_same_noise_every_epoch() -> None:
    x, y = data()
    noise = GaussianNoise(3.0)
    net = model()
    history = train(net, (x, y), Gaussian(noise), epochs=3, validation=(x[:100], y[:100]), seed=2)
    assert history[-1].accuracy == noisy_accuracy(net, (x[:100], y[:100]), noise, seed=2)
    noisy = noise.draw(x[:100], generator(2, "train", "validate", 0))
    assert history[-1].accuracy == float((net(noisy).argmax(1) == y[:100]).double().mean())
    net.train()
    noisy_accuracy(net, (x, y), noise)
    assert net.training, "the mode is as it was"


def test_the_part_held_out_is_the_same_for_everyone_and_disjoint() -> None:
    rows, held = hold_out(4000, 0.02)
    assert (len(rows), len(held)) == (3920, 80)
    assert sorted(rows + held) == list(range(4000))
    assert hold_out(4000, 0.02) == (rows, held)
    # Labels of mnist5k are index mod 10: a class that is missing among 80 has probability 10 * 0.9^80 = 0.002.
    assert len({index % 10 for index in held}) == 10
    assert hold_out(7, 0)[1] == []
    with pytest.raises(InputError, match="holdout must be a share"):
        hold_out(10, 1.0)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_fast_layout_is_reached(channels: int) -> None:
    """Activations of convolutions are channels-last in training, also behind inputs with one channel."""
    net = build(Architecture("lenet", 10, (channels, 8, 8)), seed=0)
    strides = []
    net.features[0].register_forward_hook(lambda m, _, out: strides.append(out.stride()) if m.training else None)  # type: ignore[union-attr]
    train(net, images(12, channels), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=6)
    assert strides == [(32 * 64, 1, 32 * 8, 32)] * 2


def test_augmentation_and_steps_reach_the_caller() -> None:
    seen, steps = [], list[tuple[int, int]]()
    x, y = images(20)
    net = build(Architecture("lenet", 10, (1, 8, 8)), seed=0)
    net.register_forward_pre_hook(lambda m, args: seen.append(args[0].detach().clone()) if m.training else None)
    train(
        net, (x, y), Gaussian(GaussianNoise(1e-6)), epochs=1, batch_size=8, chunk=3, schedule=Constant(),
        augment=Augment(crop=2, flip=True), on_step=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert steps == [(1, 3), (2, 3), (3, 3)]
    order = torch.randperm(20, generator=generator(0, "train", "order", 0))
    what = Augment(crop=2, flip=True).draw(8, generator(0, "train", "augment/0/0", 0))
    expected = Augment(crop=2, flip=True).apply(x[order[:8]], what)
    torch.testing.assert_close(torch.cat(seen[:3]), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("objective", [MACER(GaussianNoise(0.5), draws=3), SmoothAdv(GaussianNoise(0.5), draws=2)])
def test_batch_norm_with_objectives_that_look_often(objective: Objective) -> None:
    net = build(Architecture("cifar-resnet20", 10, (3, 8, 8), (0.5,) * 3, (0.25,) * 3), seed=0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    history = train(net, images(8, 3), objective, epochs=1, batch_size=4, chunk=2, lr=0.01)
    after = net.state_dict()
    assert math.isfinite(history[0].loss)
    assert history[0].loss == pytest.approx(sum(history[0].terms.values()))
    assert torch.equal(after["0.mean"], before["0.mean"]), "buffers of other layers are left alone"
    assert not torch.equal(after["1.bn.running_mean"], before["1.bn.running_mean"])
