"""Attacks on the soft smoothed classifier: ascent on -log mean_j softmax(f(x' + delta_j))_y (Salman et al. 2019).

All draws delta_j are given by the caller and are the same in every step, so that a call climbs one function.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.model import Model, evaluating
from smoothcert.core.registry import Registry
from smoothcert.noise.base import per_row

Look = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A point (B, ...) -> the smoothed log scores there, (B, C), and the gradient of the smoothed loss, (B, ...)."""


ATTACKS: Registry[type[Attack]] = Registry("attack")


@dataclass(frozen=True)
class Attack(Described, ABC):
    """An l2 attack on the smoothed loss. Frozen; hyper-parameters are fields.

    `eps` is the radius of the ball around x that the answer lies in, up to the rounding of x + perturbation: one
    number, or one per input, (B,), or None for no ball. `bounds` is the box of valid inputs, or None for no box.
    """

    registry: ClassVar[Registry[Any]] = ATTACKS
    carries: ClassVar[bool] = False
    """Whether it goes on from epoch to epoch, along directions that `carrying` takes."""

    eps: float | Tensor | None
    steps: int
    bounds: tuple[float, float] | None = dataclasses.field(default=(0.0, 1.0), kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise InputError(f"steps of an attack must be a positive integer, got {self.steps}")
        if self.eps is not None and not bool((torch.as_tensor(self.eps) >= 0).all()):
            raise InputError(f"eps of an attack must be at least 0, or None for no ball, got {self.eps}")
        if self.bounds is not None and not _is_box(self.bounds):
            raise InputError(
                f"bounds of an attack must be two numbers, the lower one first, or None for no box, got {self.bounds!r}"
            )

    def perturb(self, model: Model, x: Tensor, y: Tensor, deltas: Tensor, *, batch_size: int | None = None) -> Tensor:
        """Perturbed inputs, like x (B, ...), that raise the smoothed loss of labels y (B,) under `deltas` (B, m, ...).

        A module is in evaluation mode meanwhile, and its gradients are left alone. At most `batch_size` noisy copies
        are run at once (at least one of every input); it changes the memory needed, not the answer.
        """
        if deltas.shape[:1] + deltas.shape[2:] != x.shape or not deltas.shape[1]:
            raise InputError(f"deltas must be noise (B, m, ...) for x {tuple(x.shape)}, got {tuple(deltas.shape)}")
        if self.bounds and bool(((x < self.bounds[0]) | (x > self.bounds[1])).any()):
            low, high = self.bounds
            raise InputError(
                f"x of an attack must lie in [{low}, {high}]; for inputs elsewhere give its bounds, or None"
            )
        draws = deltas.shape[1] if batch_size is None else max(1, batch_size // len(x))
        with evaluating(model):
            # A noise draw is a random direction, and a repeatable one: it serves where the gradient is zero.
            moved = self._ascend(x.detach(), deltas[:, 0], lambda at: soft_gradient(model, at, y, deltas, draws), y)
        return self._valid(x.detach() + into_ball(moved, self.eps))

    @abstractmethod
    def _ascend(self, x: Tensor, spare: Tensor, look: Look, y: Tensor) -> Tensor:
        """The perturbation, (B, ...), before it is put into the ball; `spare` is a direction where no gradient is."""

    def scaled(self, factor: float) -> Self:
        """The same attack in a ball `factor` times as large."""
        return dataclasses.replace(self, eps=None if self.eps is None else self.eps * factor)

    def carrying(self, directions: Tensor) -> Self:
        """The same attack, going on from directions (B, ...) of length 1 or 0; they are overwritten."""
        raise InputError(f"the attack {self.name} begins anew every time: it does not go on from directions")

    def describe(self) -> dict[str, Any]:
        """Name and hyper-parameters, as JSON-able data; one with a radius per input is not made again from that."""
        return super().describe() | ({"eps": self.eps.tolist()} if isinstance(self.eps, Tensor) else {})

    def _valid(self, x: Tensor) -> Tensor:
        return x if self.bounds is None else x.clamp(*self.bounds)


@ATTACKS.add
@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent: steps of one length along the normalised gradient, starting from x.

    The length is 2 eps / steps unless given. With eps=None there is no ball to stay in (SmoothMix).
    """

    name: ClassVar[str] = "pgd"
    step_size: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eps is None and self.step_size is None:
            raise InputError("step_size of PGD must be given where eps is None: there is no ball to derive it from")
        if self.step_size is not None and not 0 <= self.step_size < math.inf:
            raise InputError(f"step_size of PGD must be a finite number of at least 0, got {self.step_size}")

    def _ascend(self, x: Tensor, spare: Tensor, look: Look, y: Tensor) -> Tensor:
        length = self.step_size if self.eps is None or self.step_size is not None else 2 * self.eps / self.steps
        moved = torch.zeros_like(x)
        for _ in range(self.steps):
            _, gradient = look(x + moved)
            moved = moved + column(length, x) * unit_direction(gradient, spare)
            # Into the box first: shrinking towards x, which is in the box, then keeps both.
            moved = into_ball(self._valid(x + moved) - x, self.eps)
        return moved

    def scaled(self, factor: float) -> Self:
        """Ball and steps `factor` times as large."""
        step = None if self.step_size is None else self.step_size * factor
        return dataclasses.replace(super().scaled(factor), step_size=step)


@ATTACKS.add
@dataclass(frozen=True)
class DDN(Attack):
    """Decoupled direction and norm (Rony et al. 2019, algorithm 1): the smallest perturbation that changes the answer.

    The norm shrinks by `gamma` where the smoothed answer is wrong and grows where it is right; steps along the
    normalised gradient turn the direction, their length going from 1 to 0.01 on a cosine. The answer is the smallest
    perturbation met that changes the prediction; where none did, the last one, which is more to learn from than the
    clean input of the authors' code.
    """

    name: ClassVar[str] = "ddn"
    eps: float | Tensor | None = None
    steps: int = 100
    init_norm: float = 1.0
    gamma: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.init_norm < math.inf or not 0 < self.gamma < 1:
            raise InputError(
                f"init_norm of DDN must be positive and gamma in (0, 1), got {self.init_norm} and {self.gamma}"
            )

    def _ascend(self, x: Tensor, spare: Tensor, look: Look, y: Tensor) -> Tensor:
        moved = torch.zeros_like(x)
        best, best_norm = moved, x.new_full((len(x),), math.inf)
        norm = x.new_full((len(x),), self.init_norm)
        for step in range(self.steps + 1):
            scores, gradient = look(x + moved)
            size = _norm(moved)
            wrong = scores.argmax(1) != y  # (B,)
            better = wrong & (size < best_norm)
            best, best_norm = torch.where(column(better, x) > 0, moved, best), torch.where(better, size, best_norm)
            if step == self.steps:
                break
            length = 0.01 + 0.99 * (1 + math.cos(math.pi * step / self.steps)) / 2
            norm = norm * torch.where(wrong, 1 - self.gamma, 1 + self.gamma)
            moved = moved + length * unit_direction(gradient, spare)
            moved = self._valid(x + column(norm, x) * unit_direction(moved, spare)) - x
        return torch.where(column(best_norm, x) < math.inf, best, moved)

    def scaled(self, factor: float) -> Self:
        """Ball and first norm `factor` times as large."""
        return dataclasses.replace(super().scaled(factor), init_norm=self.init_norm * factor)


def soft_gradient(model: Model, x: Tensor, y: Tensor, deltas: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """log mean_j softmax(f(x + delta_j)), (B, C), and the gradient with respect to x of minus its y-th entry, (B, ...).

    `draws` noisy copies of every input are run at once. The parts are put together by their own weight in the sum,
    so nothing under- or overflows: grad log sum_k e^{s_k} = sum_k softmax(s)_k grad s_k.
    """
    sums, own_sums = list[Tensor](), list[Tensor]()
    gradients = list[Tensor]()
    for part in torch.split(deltas, draws, dim=1):
        point = x.detach().requires_grad_()
        with torch.enable_grad():
            scores = forward(model, point, part)  # (B, k, C)
            own = log_softmax_of(scores, y).logsumexp(dim=1)  # (B,)
            gradients += torch.autograd.grad(-own.sum(), point)
        sums.append(scores.detach().log_softmax(dim=-1).logsumexp(dim=1))  # (B, C)
        own_sums.append(own.detach())
    weights = torch.stack(own_sums).softmax(dim=0)  # (parts, B)
    gradient = sum((column(w, x) * g for w, g in zip(weights, gradients, strict=True)), torch.zeros_like(x))
    return torch.stack(sums).logsumexp(dim=0) - math.log(deltas.shape[1]), gradient


def log_softmax_of(scores: Tensor, y: Tensor) -> Tensor:
    """log softmax(scores)_y, (B, k, C) -> (B, k), as -softplus(logsumexp of the others - own score).

    Its gradient is right also where softmax rounds to 1 and the gradient of `log_softmax` to 0: with an own score 17
    above the others in float32.
    """
    label = y[:, None, None].expand(-1, scores.shape[1], 1)
    others = scores.scatter(2, label, -math.inf).logsumexp(dim=2)
    return -F.softplus(others - scores.gather(2, label)[..., 0])


def forward(model: Model, x: Tensor, deltas: Tensor) -> Tensor:
    """Scores of all noisy copies, (B, m, C), run as one batch in input-major order: x1 x1 ... x2 x2 ..."""
    return by_input(model((x[:, None] + deltas).flatten(0, 1)), len(x))


def by_input(scores: Tensor, inputs: int) -> Tensor:
    """(B * m, C) -> (B, m, C); in float32 at least, whatever precision the model runs in."""
    return scores.reshape(inputs, -1, scores.shape[-1]).to(torch.promote_types(scores.dtype, torch.float32))


def check_attack(objective: str, attack: object) -> None:
    """Refuse what is no attack, such as its name."""
    if not isinstance(attack, Attack):
        raise InputError(f"attack of {objective} must be an Attack, such as PGD(eps=1.0, steps=10), got {attack!r}")


def _is_box(bounds: Any) -> bool:
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    return pair and all(isinstance(end, int | float) for end in bounds) and bounds[0] < bounds[1]


def column(value: float | Tensor | None, x: Tensor) -> Tensor:
    """One number, or one per row, (B,), shaped to meet x (B, ...)."""
    return per_row(torch.as_tensor(value), x)


def _norm(v: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(v.flatten(1), dim=1)  # (B,)
    return norm


def unit_direction(v: Tensor, spare: Tensor) -> Tensor:
    """v over its norm, row by row; the direction of `spare` where v is zero.

    Divided by the largest entry first: the squares of the gradient of a sure classifier are 0 in float32.
    """
    top = column(v.flatten(1).abs().amax(dim=1), v)
    scaled = torch.where(top == 0, spare, v / torch.where(top == 0, 1, top))
    unit: Tensor = scaled / column(_norm(scaled).clamp_min(torch.finfo(v.dtype).tiny), v)
    return unit


def into_ball(v: Tensor, eps: float | Tensor | None) -> Tensor:
    """v, shrunk to norm eps where it is longer."""
    if eps is None:
        return v
    room = column(eps, v) / column(_norm(v).clamp_min(torch.finfo(v.dtype).tiny), v)
    return v * room.clamp_max(1)
