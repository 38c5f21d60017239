"""The sentence of a certificate claims what was proved, and no more."""

import dataclasses

import pytest

from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import ABSTAIN, Certificate, Fixed, converse
from smoothcert.stats import Tally

ROUNDED = "perturbed inputs are rounded to the nearest multiple of"


def certificate(noise: Noise, share: float = 1.0) -> Certificate:
    made = converse(
        Fixed(n=500).certify(noise), lambda ask: Tally((round(share * ask.n), ask.n - round(share * ask.n)))
    )
    return dataclasses.replace(made, noise=noise.describe())


@pytest.mark.parametrize(
    ("noise", "step"),
    [(Gaussian(0.25, grid=1 / 255), "1/255"), (Uniform(0.4, grid=1 / 65535), "1/65535"), (Gaussian(2.0, grid=1), "1")],
    ids=str,
)
def test_a_claim_on_a_grid_says_what_happens_beside_it(noise: Noise, step: str) -> None:
    claimed = certificate(noise)
    assert not claimed.abstained
    assert str(claimed).endswith(f"; {ROUNDED} {step}, and their distance is measured then)")
    assert ROUNDED not in claimed.reason, "what is recorded stays as it is"
    assert ROUNDED not in str(certificate(noise, 0.5)), "an abstention claims nothing"


@pytest.mark.parametrize("noise", [Gaussian(0.25), Uniform(0.4), Laplace(0.3), Ablation(0.8)], ids=str)
def test_without_a_grid_nothing_is_said_of_one(noise: Noise) -> None:
    assert str(certificate(noise)).endswith("(fixed classifier, wrong with probability at most 0.001)")


@pytest.mark.parametrize("grid", [None, "1/255", 0.0, -1.0, float("nan"), float("inf"), 1e-320, True])
def test_a_damaged_grid_does_not_keep_a_certificate_from_being_printed(grid: object) -> None:
    assert str(dataclasses.replace(certificate(Gaussian(0.25)), noise={"grid": grid})).startswith("class 0 below l2")


def test_huge_radii_are_printed() -> None:
    huge = dataclasses.replace(certificate(Gaussian(1e38)), radius=2.5e26)
    assert "radius 2.5000e+26" in str(huge)
    assert "radius 2.2" in str(certificate(Gaussian(1e38))), "nothing on the way takes it for too large"
    assert certificate(Gaussian(1e38), 0.5).label == ABSTAIN
