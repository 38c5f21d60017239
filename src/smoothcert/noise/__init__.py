"""Noises: their law, the radius they buy, the probability a radius needs, and how they are drawn. One file each.

Nothing here imports torch before something is drawn.
"""

from smoothcert.core.registry import import_all
from smoothcert.noise.ablation import Ablation
from smoothcert.noise.base import NOISES, Noise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.laplace import Laplace
from smoothcert.noise.uniform import Uniform

import_all(__name__, __path__)

__all__ = ["NOISES", "Ablation", "Gaussian", "Laplace", "Noise", "Uniform"]
