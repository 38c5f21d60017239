"""Tests keep what they cache in a folder of their own; real certificates and runs, made with simulated votes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from scipy import special
from simulated_runs import simulated_config

import smoothcert as sc
from smoothcert.core import plugins
from smoothcert.core.registry import all_or_nothing
from smoothcert.procedures import Ask, Certificate, Fixed, FromDraws, Scope, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

# no test asks a clock: on a busy machine an example may take long to run, or to make
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@dataclass(frozen=True)
class NormalGeometry:
    sigma: float = 0.25
    norm: str = "l2"

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        return max(0.0, self.sigma * float(special.ndtri(p_lower)))

    def required_p(self, radius: float) -> float:
        return float(special.ndtr(radius / self.sigma))


def certificate(votes: int, *, scope: Scope = Scope.FIXED, norm: str = "l2") -> Certificate:
    """`votes` of 100 draws say class 1, the others class 0; 10 draws chose class 1."""
    procedure = Fixed(n0=10, n=100)

    def draw(ask: Ask) -> Tally:
        return Tally((0, ask.n) if ask.purpose == "choose" else (100 - votes, votes))

    made = converse(procedure.certify(NormalGeometry(norm=norm)), draw)
    own = FromDraws(made.label, made.radius, made.reason, region=1) if scope is Scope.MEMORY else None
    return replace(made, scope=scope, from_draws=own, noise={"name": "gaussian", "sigma": 0.25, "norm": norm})


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a run: input i has label 1 and the votes given; fewer votes than indices: unfinished."""

    def make(
        name: str, indices: Sequence[int], votes: Sequence[int], *, scope: Scope = Scope.FIXED, norm: str = "l2"
    ) -> Path:
        about: dict[str, Any] = {"noise": {"name": "gaussian", "sigma": 0.25, "norm": norm}}
        about |= {"memory": "m"} if scope is Scope.MEMORY else {}
        about |= {"sigma_search": {"method": "grid"}} if scope is Scope.OWN else {}
        run = Run.start(tmp_path / name, simulated_config(indices, classifier={}, **about))
        with run.writing() as writer:
            for index, count in zip(indices, votes, strict=False):
                writer.append(Record.of(index, 1, certificate(count, scope=scope, norm=norm), 0.5))
        return run.path

    return make


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("SMOOTHCERT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module", autouse=True)
def _no_plugin_stays() -> Iterator[None]:
    """Runs say which plug-ins were loaded: one that a file left behind would change what the next ones see."""
    before = plugins.loaded_plugins()
    yield
    assert plugins.loaded_plugins() == before, "take the fixture `forgotten`"


class _OverError(Exception):
    pass


@pytest.fixture(scope="module")
def forgotten() -> Iterator[None]:
    """What the tests of a file register or load is forgotten after them: other files have the package alone."""
    for public in sc.__all__:  # what the package registers is there before, and stays
        getattr(sc, public)
    loaded, entered = dict(plugins._LOADED), set(plugins._ENTERED)
    with suppress(_OverError), all_or_nothing():
        yield
        raise _OverError
    plugins._LOADED.clear()
    plugins._LOADED.update(loaded)
    plugins._ENTERED.intersection_update(entered)
