"""Training objectives, one file each."""

from smoothcert.objectives.base import Objective
from smoothcert.objectives.gaussian import Gaussian

OBJECTIVES: dict[str, type[Objective]] = {objective.name: objective for objective in (Gaussian,)}

__all__ = ["OBJECTIVES", "Gaussian", "Objective"]
