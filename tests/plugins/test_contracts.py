"""Things from outside keep the contracts that the package's own keep: its tests are run on them, as they stand."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from scipy import stats

from smoothcert.models import Architecture, build, fingerprint
from smoothcert.models.ensembles import AGGREGATIONS
from smoothcert.models.networks.registry import ARCHITECTURES
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import PROCEDURES, Fixed, Procedure
from smoothcert.stats import BOUNDS, Bound, Tally
from smoothcert.training.objectives import OBJECTIVES

pytestmark = pytest.mark.usefixtures("my_things")


def contract(kind: str) -> ModuleType:
    """The package's own tests of a kind, once more: what is changed here does not reach them."""
    path = Path(__file__).parents[1] / "contracts" / f"test_{kind}.py"
    spec = spec_from_file_location(f"contract_for_plugins_{kind}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(function: Callable[..., None], argument: str, make: Callable[[], Any]) -> Callable[..., None]:
    """A test with a thing of ours in the place of the cases of `argument`; what else it has stays."""

    @functools.wraps(function)
    def run(**others: Any) -> None:
        function(**{argument: make()}, **others)

    signature = inspect.signature(function)
    left = [parameter for name, parameter in signature.parameters.items() if name != argument]
    run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    marks = [mark for mark in getattr(function, "pytestmark", []) if not mark.args or argument not in mark.args[0]]
    run.pytestmark = marks  # type: ignore[attr-defined]
    return run


def adopt(module: ModuleType, argument: str, make: Callable[[], Any]) -> None:
    """Take over every test of a contract that is about `argument`."""
    found = {
        f"{name}_for_{argument}_of_{module.__name__.rpartition('_')[2]}": ours(function, argument, make)
        for name, function in vars(module).items()
        if name.startswith("test_") and argument in inspect.signature(function).parameters
    }
    assert len(found) > 3
    globals().update(found)


noises, procedures, objectives, ensembles = (
    contract(kind) for kind in ("noises", "procedures", "objectives", "ensembles")
)
noises.EXACT["logistic"] = noises.EXACT["laplace"]  # the argument is the same, and so is the radius that it gives
adopt(noises, "noise", lambda: NOISES["logistic"](0.3))
adopt(procedures, "make", lambda: lambda _: PROCEDURES["either"](n0=20, n=200, alpha=procedures.ALPHA))
adopt(objectives, "make", lambda: lambda noise, _: OBJECTIVES["smoothed-labels"](noise))
adopt(ensembles, "make", lambda: AGGREGATIONS["median-voting"])
members, x = ensembles.members, ensembles.x  # its fixtures


@pytest.fixture(params=["eager"])
def backend(request: pytest.FixtureRequest) -> str:
    """Of the test of votes, whose cases are pairs of an aggregation and a backend."""
    return str(request.param)


def either(**options: Any) -> Procedure:
    return PROCEDURES["either"](n0=20, n=200, alpha=procedures.ALPHA, **options)


@pytest.mark.parametrize("make", [lambda: Fixed(n0=20, n=200, alpha=procedures.ALPHA), either], ids=["fixed", "either"])
@pytest.mark.parametrize("p", [(0.5, 0.5), (0.66, 0.34), (0.45, 0.3, 0.25), (0.98, 0.02)])
def test_with_a_noise_from_outside_false_certificates_are_as_rare(
    make: Callable[[], Procedure], p: tuple[float, ...]
) -> None:
    procedures.test_false_certificates_are_rare(lambda _: make(), NOISES["logistic"](0.5), p)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_bound_from_outside_covers(alpha: float) -> None:
    """By enumeration of all votes: the bound is on the wrong side with probability at most alpha."""
    bound, n = BOUNDS["hoeffding-votes"](), 60
    tallies = [Tally((k, n - k)) for k in range(n + 1)]
    for p in (0.02, 0.3, 0.5, 0.77, 0.99):
        law = stats.binom(n, p)
        below = sum(law.pmf(k) for k, tally in enumerate(tallies) if bound.lower(tally, 0, alpha) > p)
        above = sum(law.pmf(k) for k, tally in enumerate(tallies) if bound.upper(tally, 0, alpha) < p)
        assert max(below, above) <= alpha


def test_the_bound_from_outside_serves_every_procedure_that_takes_one() -> None:
    bound = BOUNDS["hoeffding-votes"]()
    for procedure in (Fixed(n=500, bound=bound), either(bound=bound)):
        assert procedure.describe()["bound"] == {"name": "hoeffding-votes"}
        assert Procedure.from_description(procedure.describe()) == procedure
    assert Bound.from_description({"name": "hoeffding-votes"}) == bound
    procedures.test_false_certificates_are_rare(lambda _: either(bound=bound), NOISES["gaussian"](0.5), (0.66, 0.34))


def test_descriptions_rebuild_things_from_outside() -> None:
    noise = NOISES["logistic"](0.25)
    assert noise.describe() == {
        "name": "logistic", "spread": 0.25, "norm": "l1", "arithmetic": "float32"
    }  # fmt: skip
    assert Noise.from_description(noise.describe()) == noise
    objective = OBJECTIVES["smoothed-labels"](noise, 0.2)
    assert OBJECTIVES["gaussian"].registry.find("smoothed-labels").from_description(objective.describe()) == objective


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 1, 1)])
def test_the_architecture_from_outside_is_built_like_any(shape: Sequence[int]) -> None:
    spec = Architecture("perceptron", 2, tuple(shape))  # type: ignore[arg-type]
    one, again = build(spec, seed=1), build(spec, seed=1)
    assert fingerprint(one) == fingerprint(again) != fingerprint(build(spec, seed=2))
    assert one(torch.rand(5, *shape)).shape == (5, 2)
    with torch.device("meta"):
        assert build(spec)(torch.empty(1, *shape)).shape == (1, 2), "how a checkpoint is checked"
    assert ARCHITECTURES["perceptron"].classifies
