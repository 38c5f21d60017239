"""Training objectives, one file each; `attack`: ascent on the smoothed loss, which several of them use."""

from smoothcert.objectives.advmacer import AdvMACER
from smoothcert.objectives.attack import DDN, PGD, Attack
from smoothcert.objectives.base import Objective
from smoothcert.objectives.consistency import Consistency
from smoothcert.objectives.denoising import Denoising
from smoothcert.objectives.gaussian import Gaussian
from smoothcert.objectives.macer import MACER
from smoothcert.objectives.smoothadv import SmoothAdv
from smoothcert.objectives.smoothmix import SmoothMix
from smoothcert.objectives.stability import Stability

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (Gaussian, Stability, SmoothAdv, MACER, AdvMACER, Consistency, SmoothMix, Denoising)
}
ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (PGD, DDN)}

__all__ = [
    "ATTACKS",
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
