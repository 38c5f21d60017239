"""Whether the model of members' logits fits: distributions and covariances (Horvath et al. 2022, appendix D).

A logit of member l at the noisy input x' is y = y_c + y_p: what the member has learned about x, and what noise adds.
The paper reads y_c in two ways, as f(x) and as the mean of f(x') over noise, and so do these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.analysis.variance import clean_correlation
from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MemberLogits:
    """What k members say of N inputs, without noise and under the same draws of it.

    Args:
        noisy: (N, draws, k, C).
        clean: (N, k, C).
        labels: the truth, (N,).
        names: what the inputs are called, N of them.
        sigma: of the noise.
    """

    noisy: Array
    clean: Array
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    sigma: float

    def __post_init__(self) -> None:
        inputs, draws, members, classes = self.noisy.shape
        if self.clean.shape != (inputs, members, classes) or len(self.labels) != inputs or len(self.names) != inputs:
            raise InputError("clean, labels and names must be of the inputs, members and classes of noisy")
        if draws < 2:
            raise InputError(f"at least 2 draws per input are needed for a variance, got {draws}")

    @property
    def members(self) -> int:
        """How many there are."""
        return int(self.noisy.shape[2])

    def at_least(self, members: int, what: str) -> None:
        """Refuse fewer members than a figure needs."""
        if self.members < members:
            raise InputError(f"{what} needs at least {members} members, got {self.members}; give --model more often")


def normalised(values: Array, axis: int) -> Array:
    """Values minus their mean, over their standard deviation along an axis, flat; what does not vary is left out."""
    deviation = np.broadcast_to(values.std(axis=axis, ddof=1, keepdims=True), values.shape)
    centred = values - values.mean(axis=axis, keepdims=True)
    flat: Array = centred[deviation > 0] / deviation[deviation > 0]
    return flat


def normalised_cdf(t: Array, count: int) -> Array:
    """P((y - mean)/sd <= t) for one of `count` Gaussian numbers, with mean and sd of these same numbers.

    That is no Gaussian for few: it ends at (count - 1)/sqrt(count) (Thompson 1935: its square is a beta variable).
    """
    share = np.clip(np.asarray(t) * np.sqrt(count) / (count - 1), -1, 1)
    cdf: Array = 0.5 + 0.5 * np.sign(share) * special.betainc(0.5, (count - 2) / 2, share**2)
    return cdf


@dataclass(frozen=True)
class Blocks:
    """Covariances of two parts, or of two members: `same` in the diagonal blocks, `cross` in the others; (C, C) each.

    `other` is the second diagonal block where it is not the first one again.
    """

    same: Array
    cross: Array
    other: Array

    @property
    def matrix(self) -> Array:
        """All of it: (2 C, 2 C)."""
        return np.block([[self.same, self.cross], [self.cross.T, self.other]])


def parts_covariance(logits: MemberLogits, *, of_mean: bool) -> Blocks:
    """Cov of (y_c, y_p) over members and draws, the mean over inputs (figure 10); y_c is the mean over noise, or f(x).

    With the mean over noise the two are uncorrelated by construction; with f(x) that is an assumption.
    """
    logits.at_least(2, "the covariance of what members have learned")
    mean = logits.noisy.mean(axis=1)  # (N, k, C)
    learned = mean if of_mean else logits.clean
    added = mean - learned
    within = logits.noisy - mean[:, None]
    noise = np.einsum("ndla,ndlb->ab", within, within) / (within.shape[1] - 1) / within.shape[2] / len(within)
    return Blocks(_between(learned, learned), _between(learned, added), noise + _between(added, added))


def _between(a: Array, b: Array) -> Array:
    """The covariance over members of values (N, k, C) each, the mean over inputs: (C, C)."""
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    covariance: Array = np.einsum("nla,nlb->ab", a, b) / (a.shape[1] - 1) / len(a)
    return covariance


@dataclass(frozen=True)
class MemberCovariance:
    """The covariance of two members' logits, measured and as the model has it: zeta times that of one member."""

    zeta: float
    measured: Blocks

    @property
    def modelled(self) -> Blocks:
        """`zeta` times what one member has, between two."""
        same = self.measured.same
        return Blocks(same, self.zeta * same, same)


def noise_covariance(logits: MemberLogits) -> MemberCovariance:
    """Of y_p: of one member under noise, and of two, the mean over members, pairs and inputs (figure 11, below)."""
    logits.at_least(2, "the covariance of members")
    centred = logits.noisy - logits.noisy.mean(axis=1, keepdims=True)
    inputs, draws, k = centred.shape[:3]
    same = np.einsum("ndla,ndlb->nab", centred, centred) / (draws - 1) / k
    whole = centred.mean(axis=2)
    cross = (k * np.einsum("nda,ndb->nab", whole, whole) / (draws - 1) - same) / (k - 1)
    one, two = np.einsum("naa->na", same), np.einsum("naa->na", cross)
    zeta = float(np.clip(np.median(two[one > 0] / one[one > 0]), 0, 1)) if (one > 0).any() else 1.0
    mean = same.sum(axis=0) / inputs
    return MemberCovariance(zeta, Blocks(mean, cross.sum(axis=0) / inputs, mean))


def clean_covariance(logits: MemberLogits) -> MemberCovariance:
    """Of y_c = f(x) over trainings (figure 11, above), with zeta_c by `variance.clean_correlation`.

    Half the covariance of the difference of two members is what they do not share; pairs that count as unrelated tell
    what one member has.
    """
    logits.at_least(3, "what members have learned in common")
    within = logits.noisy - logits.noisy.mean(axis=1, keepdims=True)
    noise = (within**2).mean(axis=(1, 2))
    zeta, unrelated = clean_correlation(logits.clean, noise, np.zeros_like(noise))
    rows, columns = np.triu_indices(logits.members, 1)
    differences = logits.clean[:, rows] - logits.clean[:, columns]  # (N, pairs, C)
    every = _half_covariance(differences)
    far = [scale * _half_covariance(differences[half][:, chosen]) for half, chosen, scale in unrelated]
    one = np.mean(far, axis=0) if far else every
    return MemberCovariance(zeta, Blocks(one, one - every, one))


def _half_covariance(differences: Array) -> Array:
    """Half the mean of d d', over inputs and pairs (N, pairs, C): (C, C)."""
    half: Array = np.einsum("npa,npb->ab", differences, differences) / (2 * differences.shape[0] * differences.shape[1])
    return half
