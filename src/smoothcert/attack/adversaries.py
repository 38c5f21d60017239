"""Who attacks: our own ascents on the smoothed loss, and the attacks of foolbox and AutoAttack on the same function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.training.objectives.attack import DDN, PGD

Adversary = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From a model, inputs x (B, ...), labels to get away from (B,), noise (B, m, ...) and the largest l2 norm of a
perturbation (B,) to perturbed inputs (B, ...)."""

FOOLBOX = "foolbox:"
STANDARD = ("apgd-ce", "apgd-t", "fab-t", "square")
"""AutoAttack's standard set (Croce & Hein 2020, section 5)."""
MOST_TARGETS = 9  # classes that its targeted attacks aim at


@dataclass(frozen=True)
class AttackEffort:
    """How hard an adversary tries."""

    steps: int = 20
    draws: int = 128  # noise draws behind every gradient, as Salman et al. 2019 and Liu et al. 2021 take

    def __post_init__(self) -> None:
        for name in ("steps", "draws"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of an attack must be at least 1, got {getattr(self, name)}")


def adversary(name: str, effort: AttackEffort) -> Adversary:
    """The adversary of that name: pgd, ddn, autoattack (Croce & Hein 2020), or foolbox: and one of its l2 attacks."""
    if name == "pgd":
        return lambda model, x, y, deltas, eps: PGD(eps, effort.steps).perturb(model, x, y, deltas)
    if name == "ddn":
        return lambda model, x, y, deltas, eps: DDN(eps, effort.steps).perturb(model, x, y, deltas)
    if name == "autoattack":
        package = _package("pyautoattack", name)
        return _one_by_one(lambda model, x, y, eps: _autoattack(package, model, x, y, eps))
    if name.startswith(FOOLBOX):
        package = _package("foolbox", name)
        kind = getattr(package.attacks, name.removeprefix(FOOLBOX), None)
        if kind is None:
            raise InputError(f"--attack {name!r}: foolbox has no attack of that name; try foolbox:L2PGD")
        return _one_by_one(lambda model, x, y, eps: _foolbox(package, kind(), model, x, y, eps))
    raise InputError(f"--attack must be pgd, ddn, autoattack or foolbox:NAME, got {name!r}")


class SoftSmoothed(nn.Module):
    """log mean_j softmax(f(x + delta_j)), (B, C), under the same draws for every x: other attacks take it as logits."""

    def __init__(self, model: nn.Module, deltas: Tensor) -> None:
        super().__init__()
        self.model, self.deltas = model, deltas  # (m, ...)

    def forward(self, x: Tensor) -> Tensor:
        """Smoothed log scores."""
        noisy = (x[:, None] + self.deltas).flatten(0, 1)  # (B m, ...)
        scores = torch.log_softmax(self.model(noisy), dim=1)  # (B m, C)
        scores = scores.view(len(x), len(self.deltas), -1)  # (B, m, C)
        return torch.logsumexp(scores, dim=1) - math.log(len(self.deltas))


Single = Callable[[nn.Module, Tensor, Tensor, float], Tensor]


def _one_by_one(attack: Single) -> Adversary:
    """Other packages take one size of perturbation and reorder their batch: so every input has a call of its own."""

    def run(model: nn.Module, x: Tensor, y: Tensor, deltas: Tensor, eps: Tensor) -> Tensor:
        rows = range(len(x))
        smoothed = [SoftSmoothed(model, deltas[i]).eval() for i in rows]
        return torch.cat([attack(smoothed[i], x[i : i + 1], y[i : i + 1], float(eps[i])) for i in rows])

    return run


def left_out(name: str, num_classes: int, input_shape: Sequence[int]) -> dict[str, str]:
    """What of an adversary cannot be run on such a classifier, each part with the reason; only autoattack has parts."""
    out: dict[str, str] = {}
    if name == "autoattack":
        if num_classes < 4:
            out["apgd-t"] = f"its loss needs 4 classes, there are {num_classes}"
        if not _takes_squares(input_shape):
            size = "x".join(map(str, input_shape))
            out["square"] = f"its squares do not fit inputs of shape {size}"
    return out


def _takes_squares(shape: Sequence[int]) -> bool:
    """Whether the first pattern of Square, tiles of a fifth of the height, fits into images of that shape."""
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 5:
        return False
    tile = shape[1] // 5
    start = (shape[1] - 5 * tile) // 2
    return tile == 1 or start + shape[1] // tile * tile <= shape[1]


def _autoattack(package: Any, model: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """The standard set, less what is `left_out`; targeted attacks aim at every other class, at most 9 of them."""
    with torch.no_grad():
        classes = model(x).shape[1]
    skipped = left_out("autoattack", classes, x.shape[1:])
    attacks = [name for name in STANDARD if name not in skipped]
    attack = package.AutoAttack(model, norm="L2", eps=eps, version="custom", attacks=attacks, seed=0, device=x.device)
    attack.apgd.n_restarts = attack.fab.n_restarts = 1
    attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = min(MOST_TARGETS, classes - 1)
    found = attack.run_standard_evaluation(x, y)
    points: Tensor = found[0] if isinstance(found, tuple) else found
    return points


def _foolbox(package: Any, attack: Any, model: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    bounded = package.PyTorchModel(model, bounds=(0, 1), device=x.device)
    _, clipped, _ = attack(bounded, x, y, epsilons=eps)
    points: Tensor = clipped
    return points


def _package(name: str, adversary: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"--attack {adversary} needs {name}: pip install 'smoothcert[attack]'") from None
