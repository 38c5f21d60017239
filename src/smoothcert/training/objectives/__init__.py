"""Training objectives, one file each; `attack`: ascent on the smoothed loss, which several of them use."""

from smoothcert.training.objectives.advmacer import AdvMACER
from smoothcert.training.objectives.attack import DDN, PGD, Attack
from smoothcert.training.objectives.base import Objective
from smoothcert.training.objectives.catrs import CATRS
from smoothcert.training.objectives.consistency import Consistency
from smoothcert.training.objectives.denoising import Denoising
from smoothcert.training.objectives.gaussian import Gaussian
from smoothcert.training.objectives.macer import MACER
from smoothcert.training.objectives.smoothadv import SmoothAdv
from smoothcert.training.objectives.smoothmix import SmoothMix
from smoothcert.training.objectives.stability import Stability

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (Gaussian, Stability, SmoothAdv, MACER, AdvMACER, Consistency, SmoothMix, CATRS, Denoising)
}
ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (PGD, DDN)}

__all__ = [
    "ATTACKS",
    "CATRS",
    "DDN",
    "MACER",
    "OBJECTIVES",
    "PGD",
    "AdvMACER",
    "Attack",
    "Consistency",
    "Denoising",
    "Gaussian",
    "Objective",
    "SmoothAdv",
    "SmoothMix",
    "Stability",
]
