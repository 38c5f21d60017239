"""Ensemble weights from hold-out data (SWEEN, Liu et al. 2021): by the paper's risk, or by the measure itself."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.models.ensembles.radius_weights import Gamma, radius_weights
from smoothcert.models.ensembles.sampling import check_holdout, label_probabilities, noisy_logits
from smoothcert.models.ensembles.solvers import Array, mixture
from smoothcert.noise import Noise

STEPS, BATCH, LR, MOMENTUM, DECAY, DROPS = 4688, 64, 0.01, 0.9, 5e-4, (0.4, 0.6)
"""Of the paper's gradient descent: 150 epochs of its 2000 CIFAR-10 inputs; the learning rate is a tenth from each of
these shares of the steps on. By steps, because with fewer inputs as many epochs hardly move."""

VISITS = 150
"""Draws of an input, at most; of few inputs they are seen again."""

DRAWS = {"radius": 32, "convex": 100}
COLLAPSED = 0.99


def plain_radius(radius: float) -> float:
    """The gamma whose index is the average certified radius."""
    return radius


@dataclass(frozen=True)
class Weights:
    """Weights that sum to one, one per member.

    Args:
        weights: in the order of the members.
        method: how they were found.
        objective: what was minimised, at these weights.
        gap: no weights have an objective that is lower by more than this (Frank-Wolfe; for "minimum-variance" relative
            to the mean variance of the members); None where nobody can tell.
        notes: what a reader should know, as sentences.
    """

    weights: tuple[float, ...]
    method: str
    objective: float
    gap: float | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields, JSON-able."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}


def sween_weights(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    noise: Noise,
    method: Literal["radius", "convex", "sgd"] = "radius",
    gamma: Gamma = plain_radius,
    of: Literal["probabilities", "logits"] = "probabilities",
    signed: bool = False,
    draws: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    apart_from: Tensor | None = None,
) -> Weights:
    """Weights for an ensemble from hold-out inputs x (N, ...) with labels y (N,): `SoftmaxVoting`, `EarlyExit`.

    "radius" (ours) maximises the robustness index of `gamma` on hard votes, by default the average certified radius;
    `measures.at_least(0.5)` makes it the certified accuracy at 0.5. With of="logits" the weights are for `SoftVoting`,
    where `signed` allows some below zero (Horvath et al. 2022, table 10, learn one of -.14). Never below equal weights
    on the hold-out inputs. `draws`: 32.
    "convex" minimises equation 12, -mean_i log sum_k w_k G[i, k], with G[i, k] the mean over `draws` (100) of member
    k's probability of the label; to the global optimum, with a gap below 1e-8. It is the paper's equation, and a poor
    objective for what is certified: the mean over draws is inside the logarithm, so it cannot see that members err on
    different draws, and the most confident one may take all the weight. All members see the same noise; the paper draws
    for each anew, which only adds to the noise of their comparison.
    "sgd" is the paper's practice: gradient descent on w = softmax(v) from v = 0, one draw per input and visit, `steps`
    (4688) batches of 64. The logarithm is then inside the mean over draws, and weight decay pulls towards equal
    weights, from which it moves little: a little another problem, whose gap is reported.

    All weight on one member is warned about. The paper takes a part of the training data that the members were not
    trained on (2000 of CIFAR-10). `apart_from` (M, ...) are inputs that must not be among x: those that were trained
    on, or will be certified.
    """
    _check_options(method, gamma, of, signed=signed, draws=draws, steps=steps)
    check_holdout(x, y, apart_from)
    if method == "radius":
        found = _by_radius(members, x, y, noise, gamma, of, signed, draws or DRAWS["radius"], seed)
    else:
        found = _by_risk(members, x, y, noise, method, draws or DRAWS["convex"], steps or STEPS, seed)
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


def collapse(weights: Sequence[float]) -> tuple[str, ...]:
    """A sentence where one member has all the weight: then there is no ensemble any more."""
    sizes = np.abs(weights) / np.abs(weights).sum()
    heaviest = int(np.argmax(sizes))
    if len(weights) < 2 or sizes[heaviest] < COLLAPSED:
        return ()
    return (
        f"member {heaviest + 1} of {len(weights)} has {sizes[heaviest]:.1%} of the weight: what is left is that "
        "member alone; compare with equal weights before you certify",
    )


def _check_options(method: str, gamma: Gamma, of: str, *, signed: bool, draws: int | None, steps: int | None) -> None:
    if method not in ("radius", "convex", "sgd"):
        raise InputError(f"method must be 'radius', 'convex' or 'sgd', got {method!r}")
    if of not in ("probabilities", "logits"):
        raise InputError(f"of must be 'probabilities' or 'logits', got {of!r}")
    if method != "radius" and (of == "logits" or signed or gamma is not plain_radius):
        raise InputError(f"of, signed and gamma go with method 'radius', not with {method!r}; leave them out")
    if signed and of != "logits":
        raise InputError("signed goes with of='logits': probabilities are weighed by what is not negative")
    if method == "sgd" and draws is not None:
        raise InputError(f"draws does not go with method 'sgd', which takes one per visit, got {draws}; leave it out")
    if method != "sgd" and steps is not None:
        raise InputError(f"steps goes with method 'sgd', not with {method!r}; leave it out")
    for name, value in (("draws", draws), ("steps", steps)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")


def _by_radius(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    noise: Noise,
    gamma: Gamma,
    of: str,
    signed: bool,
    draws: int,
    seed: int,
) -> Weights:
    scores = noisy_logits(members, x, noise, draws, seed, "sween radius")  # (N, draws, k, C)
    if of == "probabilities":
        scores = special.softmax(scores, axis=3)
    w, index = radius_weights(scores.astype(np.float32), y.long().cpu().numpy(), noise, gamma, signed=signed)
    found = tuple(float(value) for value in w)
    return Weights(found, "sween-radius", -index, None, collapse(found))


def _by_risk(
    members: Sequence[nn.Module], x: Tensor, y: Tensor, noise: Noise, method: str, draws: int, steps: int, seed: int
) -> Weights:
    count = min(VISITS, -(-steps * BATCH // len(x))) if method == "sgd" else draws
    p, _ = label_probabilities(members, x, y, noise, count, seed, f"sween {method}")  # (N, draws, k)
    p = np.maximum(p, np.finfo(np.float64).tiny)
    if method == "convex":
        likelihoods = p.mean(axis=1)
        w, gap = mixture(likelihoods)
    else:
        likelihoods = p.reshape(-1, len(members))
        w = _descend(p, steps, seed)
        gap = max(0.0, float((likelihoods / (likelihoods @ w)[:, None]).mean(axis=0).max() - 1))
    loss, found = -float(np.log(likelihoods @ w).mean()), tuple(float(value) for value in w)
    return Weights(found, f"sween-{method}", loss, gap, collapse(found))


def _descend(p: Array, steps: int, seed: int) -> Array:
    """SGD on v, w = softmax(v); the e-th visit of an input sees its draw e of p (N, draws, k), and so on around."""
    seen = torch.from_numpy(p)
    v = torch.zeros(p.shape[2], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([v], lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [round(drop * steps) for drop in DROPS])
    passes = -(-steps * BATCH // len(seen))
    orders = [torch.randperm(len(seen), generator=generator(seed, "", "sween order", i)) for i in range(passes)]
    rows = torch.cat(orders)  # inputs one after another, pass by pass
    draws = (torch.arange(passes) % p.shape[1]).repeat_interleave(len(seen))
    for step in range(steps):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = -(seen[rows[batch], draws[batch]] @ v.softmax(0)).log().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    found: Array = v.detach().softmax(0).numpy()
    return found
