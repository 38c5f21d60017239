import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.training.objectives import DDN, PGD, Attack, Carried
from smoothcert.training.objectives.attack import soft_gradient, unit_direction

Batch = tuple[Tensor, Tensor]
ATTACKS: list[Attack] = [
    PGD(0.2, 10),
    DDN(0.2, 10),
    DDN(steps=30),
    PGD(None, 3, 0.1),
    PGD(0.2, 3, bounds=None),
    Carried(0.2),
    Carried(0.2, 3),
]
named = pytest.mark.parametrize("attack", ATTACKS, ids=str)
BOXES: list[Any] = [5, (0.0,), (1.0, 0.0), ("0", "1"), (0.0, math.nan)]  # that are none
W = torch.tensor([3.0, 0.0, -4.0, 0.0])  # norm 5


def linear(gain: float = 1.0, shift: float = 0.0) -> Callable[[Tensor], Tensor]:
    """Scores (w.x + shift, 0): class 0 where w.x > -shift, at distance (w.x + shift) / 5 of the boundary."""
    return lambda x: torch.stack([gain * (x @ W + shift), torch.zeros(len(x))], dim=1)


def noise(m: int = 6, scale: float = 0.25) -> Tensor:
    return scale * torch.randn(5, m, 4, generator=torch.Generator().manual_seed(2))


def loss(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, deltas: Tensor) -> Tensor:
    scores = torch.stack([model(x + deltas[:, j]).softmax(dim=1) for j in range(deltas.shape[1])])
    return -scores.mean(dim=0)[torch.arange(len(x)), y].log()


@named
def test_the_loss_rises_within_ball_and_box(attack: Attack, batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model, deltas = spy(), noise()
    found = attack.perturb(model, x, y, deltas)
    right = sum(model(x + deltas[:, j]).softmax(1) for j in range(6)).argmax(1) == y
    before, after = loss(model, x, y, deltas), loss(model, found, y, deltas)
    assert right.any()
    assert bool((after > before)[right].all()), "DDN does not move what is wrong already"
    assert bool((after >= before).all())
    if attack.eps is not None:
        assert float((found - x).norm(dim=1).max()) <= 0.2 * (1 + 1e-6)
    assert attack.bounds is None or (float(found.min()) >= 0 and float(found.max()) <= 1)


def test_each_input_has_its_own_ball_and_the_box_holds_at_its_edge(spy: Callable[..., nn.Module]) -> None:
    x, y, eps = torch.tensor([0.0, 1.0, 0.5, 1.0, 0.0])[:, None].repeat(1, 4), torch.arange(5) % 3, torch.arange(5) / 10
    for attack in [PGD(eps, 7), DDN(eps, 7)]:
        found = attack.perturb(spy(), x, y, noise())
        assert bool(((found - x).norm(dim=1) <= eps * (1 + 1e-6)).all())
        assert torch.equal(found[0], x[0])
        assert (float(found.min()), float(found.max())) == (0.0, 1.0)
    assert float((PGD(eps, 7).perturb(spy(), x, y, noise()) - x).norm(dim=1)[2]) == pytest.approx(0.2, rel=1e-5)


def test_pgd_goes_straight_on_a_linear_model(batch: Batch) -> None:
    """The gradient of the smoothed loss of class 0 is along -w everywhere, so the best point of the ball is known."""
    x, y = batch[0], torch.zeros(5, dtype=torch.long)
    best = x - 0.15 * W / 5
    assert torch.allclose(PGD(0.15, 4).perturb(linear(), x, y, noise()), best, atol=1e-6)
    free = PGD(None, 4, 0.5, bounds=None).perturb(linear(), x, y, noise())
    assert torch.allclose(free, x - 4 * 0.5 * W / 5, atol=1e-6)


def test_a_carried_attack_begins_as_a_step_of_pgd(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    for bounds in ((0.0, 1.0), None):
        wanted = PGD(0.15, 1, 0.15, bounds=bounds).perturb(spy(), x, y, noise())
        assert torch.allclose(Carried(0.15, bounds=bounds).perturb(spy(), x, y, noise()), wanted, atol=1e-6)
        directions = torch.zeros(5, 4)
        started = Carried(0.15, bounds=bounds, directions=directions).perturb(spy(), x, y, noise())
        assert torch.allclose(started, wanted, atol=1e-6)
        assert torch.allclose(directions.norm(dim=1), torch.ones(5)), "what it came to is left behind"


def test_a_carried_attack_goes_on_from_its_directions(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    """By hand: the gradient is taken at the end of the old direction, and the new one is between both."""
    x, y = batch
    old, model = unit_direction(noise()[:, 0], x), spy()
    directions, end = old.clone(), x + 0.15 * old
    found = Carried(0.15, decay=0.7, bounds=None, directions=directions).perturb(model, x, y, noise())
    assert torch.allclose(model.seen[0].view(5, 6, 4)[:, 0], end + noise()[:, 0], atol=1e-6)
    _, gradient = soft_gradient(model, end, y, noise(), 6)
    wanted = 0.7 * old + gradient / gradient.norm(dim=1, keepdim=True)
    wanted /= wanted.norm(dim=1, keepdim=True)
    assert torch.allclose(directions, wanted, atol=1e-5)
    assert torch.allclose(found, x + 0.15 * wanted, atol=1e-6)


def test_a_carried_attack_is_nearer_to_what_gradients_have_in_common(batch: Batch) -> None:
    """Each gradient is mostly chance, as of few noise draws."""
    x, y = batch[0], torch.zeros(5, dtype=torch.long)
    chance, directions = torch.Generator().manual_seed(4), torch.zeros(5, 4)
    once, carried = [], []
    for _ in range(200):
        other = W + 4 * torch.randn(4, generator=chance)
        model = lambda z, w=other: torch.stack([z @ w, torch.zeros(len(z))], dim=1)  # noqa: E731
        Carried(0.1, directions=directions).perturb(model, x, y, noise())
        once.append(float(other @ W / (5 * other.norm())))
        carried.append(float(directions[0] @ -W) / 5)
    assert sum(carried) / 200 > sum(once) / 200 + 0.1


def test_ddn_finds_the_distance_of_a_linear_boundary(batch: Batch) -> None:
    """Distances 0.1, 0.2, ... of the boundary, no noise: the norm is found up to its 5% steps."""
    x, y = batch[0], torch.zeros(5, dtype=torch.long)
    distances = torch.arange(1, 6) / 10
    x = x + (5 * distances - x @ W)[:, None] * W / 25
    attack = DDN(steps=100, bounds=None)
    found = attack.perturb(linear(), x, y, torch.zeros(5, 1, 4))
    assert bool((linear()(found).argmax(1) == 1).all())
    ratio = (found - x).norm(dim=1) / distances
    assert bool(((ratio >= 1) & (ratio < 1.06)).all()), ratio
    inside = DDN(0.25, 100, bounds=None).perturb(linear(), x, y, torch.zeros(5, 1, 4))
    assert torch.allclose((inside - x).norm(dim=1)[2:], torch.tensor(0.25))
    assert torch.equal(inside[:2], found[:2])


def test_ddn_leaves_alone_what_is_wrong_already_and_goes_on_where_nothing_works(batch: Batch) -> None:
    x = batch[0]
    wrong = DDN(steps=5).perturb(linear(shift=-99), x, torch.zeros(5, dtype=torch.long), noise())
    assert torch.equal(wrong, x)
    hopeless = DDN(steps=3, init_norm=0.1).perturb(linear(shift=99), x, torch.zeros(5, dtype=torch.long), noise())
    assert torch.allclose((hopeless - x).norm(dim=1), torch.tensor(0.1 * 1.05**3), rtol=1e-5)


def test_a_sure_classifier_still_shows_its_direction(batch: Batch) -> None:
    """Softmax of 1 - 1e-35: the squares of the gradient are 0 in float32, the direction is not lost."""
    x, y = batch[0], torch.zeros(5, dtype=torch.long)
    found = PGD(0.1, 1).perturb(linear(shift=80), x, y, torch.zeros(5, 1, 4))
    assert torch.allclose(found, x - 0.1 * W / 5, atol=1e-6)


def test_without_a_gradient_the_direction_is_random_and_repeatable(batch: Batch) -> None:
    x, y = batch
    flat = lambda z: torch.zeros(len(z), 3) + 0 * z.sum()  # noqa: E731
    for attack in [PGD(0.1, 2), DDN(0.1, 2)]:
        found = attack.perturb(flat, x, y, noise())
        moved = found - x
        size = moved[y != 0].norm(dim=1) if isinstance(attack, PGD) else moved[y == 0].norm(dim=1)
        assert torch.allclose(size, torch.tensor(0.1), rtol=1e-4)
        assert torch.equal(found, attack.perturb(flat, x, y, noise()))
    assert not torch.equal(PGD(0.1, 2).perturb(flat, x, y, noise()), PGD(0.1, 2).perturb(flat, x, y, -noise()))


@named
def test_the_noise_is_the_same_in_every_step(attack: Attack, batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model, deltas = spy(), noise()
    attack.perturb(model, x, y, deltas)
    assert len(model.seen) == attack.steps + isinstance(attack, DDN)
    assert torch.equal(model.seen[0], (x[:, None] + deltas).flatten(0, 1)), "input-major"
    for seen in model.seen:
        copies = seen.view(5, 6, 4)
        assert torch.allclose(copies - copies[:, :1], deltas - deltas[:, :1], atol=1e-6)
        point = copies[:, 0] - deltas[:, 0]
        assert attack.bounds is None or float((point - 0.5).abs().max()) < 0.5 + 1e-6, "in the box in every step"
        if isinstance(attack, PGD) and attack.eps is not None:
            assert float((point - x).norm(dim=1).max()) < 0.2 + 1e-6, "and in the ball"


@named
def test_parameters_and_modes_are_left_alone(attack: Attack, batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model = spy(nn.BatchNorm1d(8), nn.Dropout(0.5)).train()
    model.net[1].eval()  # a frozen part stays frozen
    modes = [part.training for part in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():  # works there too
        attack.perturb(model, x.requires_grad_(), y, noise())
    assert not any(model.modes)
    assert [part.training for part in model.modules()] == modes
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert x.grad is None
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_modes_come_back_after_an_exception(spy: Callable[..., nn.Module]) -> None:
    model = spy(nn.Dropout(0.5)).train()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        PGD(0.2, 2).perturb(model, torch.zeros(5, 7), torch.zeros(5, dtype=torch.long), torch.zeros(5, 1, 7))
    assert all(part.training for part in model.modules())
    with evaluating(abs):  # a function has no mode
        pass


@named
def test_memory_does_not_change_the_answer(attack: Attack, batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model = spy()
    whole = attack.perturb(model, x, y, noise(m=7))
    for batch_size in [1, 10, 1000]:
        parts = attack.perturb(model, x, y, noise(m=7), batch_size=batch_size)
        assert torch.allclose(parts, whole, atol=1e-5)
    assert max(map(len, model.seen)) == 35
    attack.perturb(fresh := spy(), x, y, noise(m=7), batch_size=17)
    assert max(map(len, fresh.seen)) == 15


def test_scores_and_gradient_are_those_of_the_smoothed_loss(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch[0].double(), batch[1]
    model, deltas = spy().double(), noise().double()
    scores, gradient = soft_gradient(model, x, y, deltas, 4)
    assert torch.allclose(scores.exp().sum(1), torch.ones(5).double())
    assert torch.allclose(-scores[torch.arange(5), y], loss(model, x, y, deltas))
    h = 1e-6
    for i in range(4):
        e = h * torch.eye(4, dtype=torch.float64)[i]
        slope = (loss(model, x + e, y, deltas) - loss(model, x - e, y, deltas)) / (2 * h)
        assert torch.allclose(gradient[:, i], slope, atol=1e-8)


def test_scaling_and_description() -> None:
    assert PGD(0.5, 4).scaled(0.1) == PGD(0.05, 4)
    assert PGD(None, 4, 2.0).scaled(0.5) == PGD(None, 4, 1.0)
    assert DDN(1.0, 4, init_norm=2.0).scaled(0.25) == DDN(0.25, 4, init_norm=0.5)
    assert PGD(torch.tensor([0.25, 0.5]), 4).describe() == {
        "name": "pgd", "eps": [0.25, 0.5], "steps": 4, "step_size": None, "bounds": [0.0, 1.0],
    }  # fmt: skip
    going = Carried(0.5, directions=torch.ones(2, 3))
    assert going.scaled(0.1) == Carried(0.05)
    assert going.scaled(0.1).directions is going.directions
    assert going.describe() == {"name": "carried", "eps": 0.5, "steps": 1, "decay": 0.9, "bounds": [0.0, 1.0]}
    assert DDN(bounds=None).describe() == {
        "name": "ddn", "eps": None, "steps": 100, "init_norm": 1.0, "gamma": 0.05, "bounds": None,
    }  # fmt: skip


def test_what_cannot_work_is_refused(batch: Batch) -> None:
    x, y = batch
    for make, message in [
        (lambda: PGD(0.1, 0), "steps of an attack must be a positive integer, got 0"),
        (lambda: PGD(-0.1, 3), "eps of an attack must be at least 0"),
        (lambda: PGD(math.nan, 3), "eps of an attack must be at least 0"),
        *(
            (lambda b=b: PGD(0.1, 3, bounds=b), "bounds of an attack must be two numbers, the lower one first")
            for b in BOXES
        ),
        (lambda: PGD(None, 3), "step_size of PGD must be given"),
        (lambda: PGD(None, 3, -1.0), "step_size of PGD must be a finite number"),
        (lambda: Carried(None), "eps of an attack that is carried on must be a finite number"),
        (lambda: Carried(torch.ones(5)), "eps of an attack that is carried on must be a finite number"),
        (lambda: Carried(0.1, decay="x"), "decay of an attack that is carried on must be a finite number"),
        (lambda: PGD(0.1, 1).carrying(x), "the attack pgd begins anew every time"),
        (
            lambda: Carried(0.1).carrying(x[:4]).perturb(linear(), x, y, noise()),
            "directions of an attack must be like x",
        ),
        (lambda: Carried(0.1, decay=-1.0), "decay of an attack that is carried on must be a finite number"),
        (lambda: DDN(init_norm=0.0), "init_norm of DDN must be positive"),
        (lambda: PGD(0.1, 3).perturb(linear(), 2 * x, y, noise()), r"must lie in \[0.0, 1.0\]"),
        (lambda: PGD(0.1, 3).perturb(linear(), x, y, noise()[:4]), "deltas must be noise"),
    ]:
        with pytest.raises(InputError, match=message):
            make()
