import dataclasses
import math
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.architectures import Architecture, build
from smoothcert.errors import InputError
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.noise.streams import generator
from smoothcert.objectives import MACER, Gaussian, Objective, SmoothAdv
from smoothcert.training import Augment, Constant, Epoch, Group, Step, hold_out, noisy_accuracy, train
from smoothcert.training.group import launched
from smoothcert.training.statistics import RunningStatistics


def data() -> tuple[Tensor, Tensor]:
    """Two clouds that a line separates."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(400) % 2).long()
    return x + 4 * y[:, None] - 2, y


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


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
    with pytest.raises(InputError, match=r"term 'cross-entropy' became .* in epoch 1: training has diverged, lower lr"):
        train(model(), (x * 1e20, y), Gaussian(GaussianNoise(0.5)), epochs=3, lr=1e30)
    with pytest.raises(InputError, match=r"data must be .* 400 inputs and 3 labels"):
        train(model(), (x, y[:3]), Gaussian(GaussianNoise(0.5)), epochs=1)
    with pytest.raises(InputError, match=r"validation must be .* 0 inputs"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, validation=(x[:0], y[:0]))
    for wrong in ({"epochs": 0}, {"lr": 0}, {"batch_size": -1}, {"chunk": 0}):
        with pytest.raises(InputError, match="must be positive"):
            train(model(), (x, y), Gaussian(GaussianNoise(0.5)), **{"epochs": 1} | wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="momentum must lie in"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, momentum=1.0)
    with pytest.raises(InputError, match="nesterov needs a momentum"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=1, momentum=0.0)


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
    net.features[0].register_forward_hook(lambda _m, _i, out: strides.append(out.stride()))  # type: ignore[union-attr]
    train(net, images(12, channels), Gaussian(GaussianNoise(0.5)), epochs=1, batch_size=6)
    assert strides == [(32 * 64, 1, 32 * 8, 32)] * 2


def test_augmentation_and_steps_reach_the_caller() -> None:
    seen, steps = [], list[tuple[int, int]]()
    x, y = images(20)
    net = build(Architecture("lenet", 10, (1, 8, 8)), seed=0)
    net.register_forward_pre_hook(lambda _m, args: seen.append(args[0].detach().clone()))
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


def test_alone_there_is_no_group() -> None:
    assert Group.current() == Group(0, 1)
    assert Group().gather("x") == ["x"]
    with launched("cpu") as device:
        assert device == "cpu"
        assert Group.current().size == 1
