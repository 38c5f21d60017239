"""Gradient ascent on the soft radius over the strength of the noise (DDRS, Alfarra et al. 2022, algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.noise.base import NOISES, Noise, per_row

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CLAMP = 0.02
"""Mean scores are clamped to [0.02, 0.98] before Phi^-1, as in the authors' scripts (appendix A)."""


def searchable(noise: Noise) -> Noise:
    """The noise without its grid: what strengths are chosen with. Refused unless it is a strength times one noise.

    Rounding to the grid of 8-bit images changes the best strength by less than can be seen, and every strength on the
    way would need tables of its own.
    """
    if noise.additive:
        return noise.gridless()
    known = ", ".join(sorted(name for name, kind in NOISES.items() if kind.additive))
    raise InputError(f"the strength of {noise.name} noise cannot be chosen per input, only that of {known}")


def unit_draws(noise: Noise, x: Tensor, draws: int, stream: torch.Generator) -> Tensor:
    """`draws` noises of strength 1 for one input x (...): (draws, ...)."""
    return noise.with_strength(1.0).draw(x.new_zeros(()).expand(draws, *x.shape), stream)


def soft_radii(noise: Noise, scores: Tensor, strength: Tensor, label: Tensor) -> Tensor:
    """sigma/2 (Phi^-1(E_A) - Phi^-1(E_B)), (B,), or what it is for the noise: half_width (E_A - E_B) of Uniform.

    E is the mean softmax of scores (B, m, C): the authors' code clamps what the model answers, and so takes for granted
    that it ends in a softmax. A is `label` (B,), B the best of the others; negative where B is ahead. A noise without a
    differentiable radius is refused.
    """
    mean = scores.softmax(dim=-1).mean(dim=1)  # (B, C)
    top = mean.gather(1, label[:, None])[:, 0]
    second = mean.scatter(1, label[:, None], -1.0).amax(dim=1)
    return noise.soft_radius(top, second, strength, clamp=CLAMP)


def ascend(
    model: Model,
    noise: Noise,
    x: Tensor,
    strength: Tensor,
    units: Tensor,
    *,
    lr: float,
    label: Tensor | None = None,
) -> Tensor:
    """One step: strength + lr dR/dstrength, (B,), at inputs x (B, ...) under noises of strength 1, `units` (B, m, ...).

    Reparametrised: the noise is strength * unit. `label` (B,) is the class A; without it, the one that these draws
    answer. Gradients of the model are left alone.
    """
    import torch

    size, draws = units.shape[:2]
    with torch.inference_mode(False), torch.enable_grad():
        at = strength.detach().clone().requires_grad_()
        noisy = x[:, None] + per_row(at, units) * units  # (B, m, ...)
        scores = model(noisy.flatten(0, 1)).to(at).view(size, draws, -1)  # (B, m, C)
        chosen = scores.detach().softmax(dim=-1).mean(dim=1).argmax(dim=1) if label is None else label
        if not scores.requires_grad:
            raise InputError("model gives scores without gradients, which the method ddrs needs; take bracket")
        (gradient,) = torch.autograd.grad(soft_radii(noise, scores, at, chosen).sum(), at)
    return strength + lr * gradient
