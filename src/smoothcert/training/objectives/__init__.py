"""Training objectives, one file each; `attack`: ascent on the smoothed loss, which several of them use."""

from smoothcert.core.registry import import_all
from smoothcert.training.objectives.advmacer import AdvMACER
from smoothcert.training.objectives.attack import ATTACKS, DDN, PGD, Attack
from smoothcert.training.objectives.base import OBJECTIVES, Objective
from smoothcert.training.objectives.carried import Carried
from smoothcert.training.objectives.catrs import CATRS
from smoothcert.training.objectives.consistency import Consistency
from smoothcert.training.objectives.denoising import Denoising
from smoothcert.training.objectives.gaussian import GaussianAugmentation
from smoothcert.training.objectives.macer import MACER
from smoothcert.training.objectives.smoothadv import SmoothAdv
from smoothcert.training.objectives.smoothmix import SmoothMix
from smoothcert.training.objectives.stability import Stability

Gaussian = GaussianAugmentation  # the public name, beside the noise of that name only as `objectives.Gaussian`

__all__ = [
    "ATTACKS",
    "CATRS",
    "DDN",
    "MACER",
    "OBJECTIVES",
    "PGD",
    "AdvMACER",
    "Attack",
    "Carried",
    "Consistency",
    "Denoising",
    "Gaussian",
    "GaussianAugmentation",
    "Objective",
    "SmoothAdv",
    "SmoothMix",
    "Stability",
]

import_all(__name__, __path__)
