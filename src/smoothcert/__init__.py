"""smoothcert: classifiers whose answers come with a proof, by randomized smoothing.

>>> import smoothcert as sc
>>> g = sc.Smoothed(model, num_classes=10, noise=sc.Gaussian(sigma=0.25))
>>> certificate, = g.certify(x, sc.Fixed(n=100_000, alpha=0.001))
>>> certificate.label, certificate.radius
>>> run = sc.certify(model, (x, y), noise=sc.Gaussian(sigma=0.25), out="runs/a")
>>> print(run.table())

Names are loaded when first used, so that reading and analysing runs does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from smoothcert import analysis as analysis
    from smoothcert import datasets as datasets
    from smoothcert import models as architectures  # noqa: F401
    from smoothcert import present as present
    from smoothcert.analysis import measures as measures
    from smoothcert.core.errors import InputError as InputError
    from smoothcert.core.registry import register as register
    from smoothcert.engine import DDRS as DDRS
    from smoothcert.engine import Bracket as Bracket
    from smoothcert.engine import LeastVariance as LeastVariance
    from smoothcert.engine import MarginRatio as MarginRatio
    from smoothcert.engine import MemberCalls as MemberCalls
    from smoothcert.engine import Processes as Processes
    from smoothcert.engine import Ray as Ray
    from smoothcert.engine import Routed as Routed
    from smoothcert.engine import SklearnClassifier as SklearnClassifier
    from smoothcert.engine import Smoothed as Smoothed
    from smoothcert.engine import Threads as Threads
    from smoothcert.engine import optimize_sigma as optimize_sigma
    from smoothcert.estimators import SmoothedClassifier as SmoothedClassifier
    from smoothcert.memory import Memory as Memory
    from smoothcert.models.diffusion import DiffusionDenoiser as DiffusionDenoiser
    from smoothcert.models.ensembles import Consensus as Consensus
    from smoothcert.models.ensembles import Denoised as Denoised
    from smoothcert.models.ensembles import EarlyExit as EarlyExit
    from smoothcert.models.ensembles import HardVoting as HardVoting
    from smoothcert.models.ensembles import MaxMargin as MaxMargin
    from smoothcert.models.ensembles import Mirrored as Mirrored
    from smoothcert.models.ensembles import SoftmaxVoting as SoftmaxVoting
    from smoothcert.models.ensembles import SoftVoting as SoftVoting
    from smoothcert.models.ensembles import minimum_variance_weights as minimum_variance_weights
    from smoothcert.models.ensembles import sween_weights as sween_weights
    from smoothcert.noise import Ablation as Ablation
    from smoothcert.noise import Gaussian as Gaussian
    from smoothcert.noise import Laplace as Laplace
    from smoothcert.noise import Uniform as Uniform
    from smoothcert.procedures import ABSTAIN as ABSTAIN
    from smoothcert.procedures import Budgeted as Budgeted
    from smoothcert.procedures import Certificate as Certificate
    from smoothcert.procedures import Certificates as Certificates
    from smoothcert.procedures import Evaluate as Evaluate
    from smoothcert.procedures import Fixed as Fixed
    from smoothcert.procedures import Predict as Predict
    from smoothcert.procedures import Prediction as Prediction
    from smoothcert.procedures import Scope as Scope
    from smoothcert.procedures import Sequential as Sequential
    from smoothcert.procedures import Staged as Staged
    from smoothcert.stats import ClopperPearson as ClopperPearson
    from smoothcert.stats import EmpiricalBernstein as EmpiricalBernstein
    from smoothcert.stats import Hoeffding as Hoeffding
    from smoothcert.stats import Tally as Tally
    from smoothcert.training import objectives as objectives
    from smoothcert.training import recipes as recipes
    from smoothcert.training import train as train
    from smoothcert.workflows.certify import certify as certify
    from smoothcert.workflows.certify_each import certify_each as certify_each
    from smoothcert.workflows.compare import compare as compare
    from smoothcert.workflows.observer import Observer as Observer
    from smoothcert.workflows.run import Run as Run
    from smoothcert.workflows.sources import load_model as load_model
    from smoothcert.workflows.sources import save_model as save_model
    from smoothcert.workflows.studies.run import study as study

_HOMES = {
    "smoothcert.procedures": (
        "ABSTAIN",
        "Budgeted",
        "Certificate",
        "Certificates",
        "Evaluate",
        "Fixed",
        "Predict",
        "Prediction",
        "Scope",
        "Sequential",
        "Staged",
    ),
    "smoothcert.engine": (
        "DDRS",
        "Bracket",
        "LeastVariance",
        "MarginRatio",
        "MemberCalls",
        "Processes",
        "Ray",
        "Routed",
        "SklearnClassifier",
        "Smoothed",
        "Threads",
        "optimize_sigma",
    ),
    "smoothcert.models.diffusion": ("DiffusionDenoiser",),
    "smoothcert.models.ensembles": (
        "Consensus",
        "Denoised",
        "EarlyExit",
        "HardVoting",
        "MaxMargin",
        "Mirrored",
        "SoftVoting",
        "SoftmaxVoting",
        "minimum_variance_weights",
        "sween_weights",
    ),
    "smoothcert.core.errors": ("InputError",),
    "smoothcert.core.registry": ("register",),
    "smoothcert.estimators": ("SmoothedClassifier",),
    "smoothcert.memory": ("Memory",),
    "smoothcert.noise": ("Ablation", "Gaussian", "Laplace", "Uniform"),
    "smoothcert.training": ("train",),
    "smoothcert.workflows.certify": ("certify",),
    "smoothcert.workflows.certify_each": ("certify_each",),
    "smoothcert.workflows.compare": ("compare",),
    "smoothcert.workflows.observer": ("Observer",),
    "smoothcert.workflows.run": ("Run",),
    "smoothcert.workflows.sources": ("load_model", "save_model"),
    "smoothcert.workflows.studies.run": ("study",),
    "smoothcert.stats": ("ClopperPearson", "EmpiricalBernstein", "Hoeffding", "Tally"),
}
_MODULES = {
    "analysis": "smoothcert.analysis",
    "architectures": "smoothcert.models",
    "datasets": "smoothcert.datasets",
    "measures": "smoothcert.analysis.measures",
    "objectives": "smoothcert.training.objectives",
    "present": "smoothcert.present",
    "recipes": "smoothcert.training.recipes",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, *_MODULES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 (takes as long as all the rest of this module)

        return version("smoothcert")
    raise AttributeError(f"module 'smoothcert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
