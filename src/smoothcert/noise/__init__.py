"""Noises: how they are drawn, the radius they buy, the probability a radius needs. One file each."""

from smoothcert.noise.ablation import Ablation
from smoothcert.noise.base import Noise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.laplace import Laplace
from smoothcert.noise.uniform import Uniform

NOISES: dict[str, type[Noise]] = {noise.name: noise for noise in (Gaussian, Uniform, Laplace, Ablation)}

__all__ = ["NOISES", "Ablation", "Gaussian", "Laplace", "Noise", "Uniform"]
