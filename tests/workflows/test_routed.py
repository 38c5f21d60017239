"""Runs of a routed classifier: they replay, resume, and are checked; forgeries are found; attacks find nothing."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.procedures import Certificate
from smoothcert.runs import Record
from smoothcert.workflows.routing import RoutedModels, models_of

FIXED = sc.Fixed(n0=20, n=600)


def plane(axis: int, scale: float = 8.0) -> nn.Linear:
    """Class 1 where x[axis] > 1/2."""
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
        model.weight[1, axis] = scale
        model.bias[1] = -scale / 2
    return model


def routed(*, seed: int = 3, router: nn.Module | None = None, workers: int = 1) -> sc.Routed:
    """The router looks at the first number; sigma 0.1 then looks at the second one, sigma 0.3 at the third."""

    def smoothed(model: nn.Module, sigma: float) -> sc.Smoothed:
        return sc.Smoothed(model, 2, sc.Gaussian(sigma), seed=seed, workers=workers)

    members = {0.1: smoothed(plane(1), 0.1), 0.3: smoothed(plane(2), 0.3)}
    return sc.Routed(smoothed(router or plane(0), 0.2), members)


def data(count: int = 12) -> tuple[Any, Any]:
    x = np.random.default_rng(0).random((count, 3), dtype=np.float32)
    labels = [int(row[2 if row[0] > 0.5 else 1] > 0.5) for row in x]
    return x, np.array(labels)


def certified(path: Path, **options: Any) -> sc.Run:
    return sc.certify(options.pop("model", routed()), data(), procedure=options.pop("procedure", FIXED), out=path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sc.Run:
    return certified(tmp_path_factory.mktemp("routed") / "run")


def test_a_run_keeps_what_the_engine_says(run: sc.Run) -> None:
    made = {c.input_id: c for c in routed().certify(torch.from_numpy(data()[0]), FIXED)}
    kept = run.certificates()
    assert len(kept) == 12
    assert all(made[c.input_id] == c for c in kept)
    assert any(c.abstained for c in kept)
    assert len({c.noise["sigma"] for c in kept if not c.abstained}) == 2
    assert all(record.draws == c.draws for record, c in zip(run.records(), kept, strict=True))


def test_a_line_does_not_repeat_what_the_run_says(run: sc.Run) -> None:
    for line in (run.path / "records.jsonl").read_text().splitlines():
        route = json.loads(line)["certificate"]["route"]
        assert set(route) <= {"label", "reason", "answers", "radius", "p_lower", "p_upper", "decisions"}
    routing = run.config.routing
    assert routing is not None
    assert routing.strengths == (0.1, 0.3)
    assert routing.router_procedure["alpha"] == routing.member_procedure["alpha"] == FIXED.alpha / 2
    assert run.config.scope is sc.Scope.FIXED


def test_a_run_without_a_router_is_written_as_before(tmp_path: Path) -> None:
    sc.certify(plane(1), data(2), noise=sc.Gaussian(0.1), procedure=sc.Fixed(n=100), out=tmp_path / "run")
    assert "routing" not in json.loads((tmp_path / "run" / "run.json").read_text())["config"]


@pytest.mark.parametrize(
    "procedure",
    [
        FIXED,
        sc.Sequential(radius=[0.05, 0.1], n=600),
        sc.Budgeted(most=600, pilot=50),
        sc.Staged(radius=0.05, stages=(50, 600)),
    ],
    ids=lambda procedure: procedure.name,
)
def test_every_procedure_is_verified_from_votes_from_models_and_from_fresh_draws(
    procedure: Any, tmp_path: Path
) -> None:
    made = certified(tmp_path / "run", procedure=procedure)
    assert sum(not c.abstained for c in made.certificates()) >= 4
    found = made.verify(model=routed(), fresh=200, pick=7, workers=1)
    assert found.holds, str(found)
    assert found.holding == 12
    drawn = sum(c.draws for c in made.certificates())
    assert f"level 2 ({drawn} draws of 12 inputs made again)" in found.sentence


def test_a_run_goes_on_and_workers_change_nothing(run: sc.Run, tmp_path: Path) -> None:
    two = certified(tmp_path / "two", model=routed(workers=2))
    assert two.certificates() == run.certificates()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_bytes((run.path / "run.json").read_bytes())
    lines = (run.path / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "half" / "records.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:40])
    assert certified(tmp_path / "half").certificates() == run.certificates()


OTHERS: dict[str, tuple[Callable[[], sc.Routed], str]] = {
    "router": (lambda: routed(router=plane(0, scale=7.0)), "was started with another router"),
    "seed": (lambda: routed(seed=4), "was started with seed 3; this command asks for 4"),
    "share": (
        lambda: sc.Routed(routed().router, routed().members, router_share=0.25),
        "was started with another share of alpha for the router",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_routed_classifier_does_not_go_on(run: sc.Run, name: str) -> None:
    make, sentence = OTHERS[name]
    with pytest.raises(InputError, match=sentence):
        certified(run.path, model=make())


def forged(run: sc.Run, path: Path, change: Callable[[Certificate], Certificate]) -> sc.Run:
    """As a careful forger leaves it: every digest made again."""
    new = sc.Run.start(path, run.config)
    with new.writing() as writer:
        for record in run.records():
            certificate = record.certificate
            assert certificate is not None
            writer.append(Record.of(record.index, record.label, change(certificate), 0.1))
    return sc.Run.open(path)


def route_of(certificate: Certificate) -> Certificate:
    assert certificate.route is not None
    return certificate.route


def with_route(certificate: Certificate, **changes: Any) -> Certificate:
    return dataclasses.replace(certificate, route=dataclasses.replace(route_of(certificate), **changes))


def _only_certified(change: Callable[[Certificate], Certificate]) -> Callable[[Certificate], Certificate]:
    return lambda certificate: certificate if certificate.abstained else change(certificate)


FORGERIES: dict[str, tuple[Callable[[Certificate], Certificate], str]] = {
    "another route": (lambda c: with_route(c, label=1 - route_of(c).label), "router's label is recorded as"),
    "a larger radius": (lambda c: dataclasses.replace(c, radius=2 * c.radius), "radius is recorded as"),
    "a larger radius of the router": (
        lambda c: with_route(c, radius=2 * route_of(c).radius),
        "router's radius is recorded as",
    ),
    "the member's own radius": (
        lambda c: dataclasses.replace(c, radius=sc.Gaussian(c.noise["sigma"]).radius(c.p_lower)),
        "radius is recorded as",
    ),
    "another noise": (
        lambda c: dataclasses.replace(c, noise=dict(c.noise) | {"sigma": 0.4 - c.noise["sigma"]}),
        "the votes of the router choose",
    ),
    "a smaller level of the router": (lambda c: with_route(c, alpha=0.001), "router's alpha is recorded as"),
    "votes of the router": (
        lambda c: with_route(c, answers=(*route_of(c).answers, route_of(c).answers[-1])),
        "draws more are recorded than the procedure asks for",
    ),
    "draws of the router as the member's": (
        lambda c: dataclasses.replace(c, answers=route_of(c).answers),
        "recorded are 20 \\(router/choose\\)",
    ),
    "no draws of the member": (lambda c: dataclasses.replace(c, answers=()), "answers of a certificate must be"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_from_the_votes_alone(run: sc.Run, tmp_path: Path, name: str) -> None:
    change, sentence = FORGERIES[name]
    changed = forged(run, tmp_path / "forged", _only_certified(change))
    touched = [
        r.index for r, c in zip(run.records(), run.certificates(), strict=True) if _only_certified(change)(c) != c
    ]
    assert touched
    found = changed.verify()
    assert not found.holds
    assert {finding.index for finding in found.findings} == set(touched)
    assert re.search(sentence, str(found)), str(found)


def test_an_honest_copy_holds(run: sc.Run, tmp_path: Path) -> None:
    assert forged(run, tmp_path / "copy", lambda c: c).verify().holds


def test_a_router_that_never_said_so_is_found_by_drawing_again(run: sc.Run, tmp_path: Path) -> None:
    """Votes, labels and sentences that fit together, of nobody: the router of the run does not vote so."""
    sharper = routed(router=plane(0, scale=7.0))
    x = torch.from_numpy(data()[0] * np.float32([0.5, 1, 1]))  # where the router is surer than it was
    other = sharper.certify(x, FIXED)
    by_id = {c.input_id: n for n, c in enumerate(run.certificates())}

    def change(certificate: Certificate) -> Certificate:
        lie = other[by_id[certificate.input_id]]
        route = dataclasses.replace(
            route_of(lie), input_id=certificate.input_id, classifier=route_of(certificate).classifier
        )
        return dataclasses.replace(lie, input_id=certificate.input_id, classifier=certificate.classifier, route=route)

    changed = forged(run, tmp_path / "forged", change)
    assert changed.verify().holds, str(changed.verify())
    found = changed.verify(model=routed(), data=data(), workers=1)
    assert not found.holds
    assert "router: class 0 is recorded with" in str(found)
    fresh = changed.verify(model=routed(), data=data(), fresh=600, pick=1, workers=1)
    assert any(one.check == "fresh draws" and one.sentence.startswith("router: ") for one in fresh.findings)


def test_a_swapped_router_is_refused(run: sc.Run) -> None:
    with pytest.raises(InputError, match=r"the router is not the one that .* certified: its fingerprint is"):
        run.verify(model=routed(router=plane(0, scale=7.0)))
    swapped = RoutedModels(plane(0), {0.1: plane(2), 0.3: plane(1)})
    with pytest.raises(InputError, match=r"the model of 0\.1 is not the one that"):
        run.verify(model=swapped)
    with pytest.raises(InputError, match="was certified with a router; give --router"):
        run.verify(model=plane(1))
    with pytest.raises(InputError, match=r"has models for the strengths 0\.1, 0\.3, got 0\.1, 0\.5"):
        run.verify(model=RoutedModels(plane(0), {0.1: plane(1), 0.5: plane(2)}))


def test_levels_that_sum_to_more_are_found(run: sc.Run, tmp_path: Path) -> None:
    routing = run.config.routing
    assert routing is not None
    greedy = dataclasses.replace(routing, router_procedure=dict(routing.router_procedure) | {"alpha": 0.001})
    other = sc.Run.start(tmp_path / "run", dataclasses.replace(run.config, routing=greedy))
    with other.writing() as writer:
        for record in run.records():
            writer.append(record)
    found = sc.Run.open(other.path).verify()
    assert "the router has alpha 0.001 and the members 0.0005: more than 0.001" in str(found)


@pytest.mark.parametrize("level", [math.nan, math.inf, -1.0])
def test_levels_that_cannot_be_are_found(run: sc.Run, tmp_path: Path, level: float) -> None:
    """JSON of Python knows numbers that are none."""
    routing = run.config.routing
    assert routing is not None
    strange = dataclasses.replace(routing, member_procedure=dict(routing.member_procedure) | {"alpha": level})
    other = sc.Run.start(tmp_path / "run", dataclasses.replace(run.config, routing=strange))
    with other.writing() as writer:
        for record in run.records():
            writer.append(record)
    found = sc.Run.open(other.path).verify()
    assert "the levels of the router and of the members are none that can be" in str(found)
    assert found.holding == 0


@pytest.mark.parametrize("radius", [1.0, 3.0], ids=["honest", "forged"])
def test_attacks_within_the_radius_succeed_only_where_it_is_false(run: sc.Run, tmp_path: Path, radius: float) -> None:
    """Both ways out are looked for: through the member's plane, and through the router's, where another answers."""
    path = tmp_path / "run"
    factor = _only_certified(lambda c: dataclasses.replace(c, radius=radius * c.radius))
    attacked = forged(run, path, factor)
    found = attacked.attack(routed(), data=data(), steps=10, draws=32, votes=200, radii=[0.1], workers=1)
    assert found.certified >= 6
    assert bool(found.false) == (radius > 1)


def test_the_way_through_the_router_is_found(tmp_path: Path) -> None:
    """The members never change their answers: only another choice does."""

    def constant(label: int) -> nn.Linear:
        model = plane(0)
        with torch.no_grad():
            model.weight.zero_()
            model.bias.zero_()
            model.bias[label] = 1.0
        return model

    def whole(seed: int) -> sc.Routed:
        members = {
            s: sc.Smoothed(constant(i), 2, sc.Gaussian(s), seed=seed, workers=1) for i, s in enumerate((0.1, 0.3))
        }
        return sc.Routed(sc.Smoothed(plane(0), 2, sc.Gaussian(0.2), seed=seed, workers=1), members)

    x = np.array([[0.3, 0.5, 0.5], [0.75, 0.5, 0.5]], dtype=np.float32)
    honest = sc.certify(whole(0), (x, [0, 1]), procedure=FIXED, out=tmp_path / "honest")
    assert all(0 < c.radius <= abs(row[0] - 0.5) for c, row in zip(honest.certificates(), x, strict=True))
    assert not honest.attack(whole(0), data=(x, [0, 1]), steps=10, draws=32, votes=200, workers=1).false
    lie = forged(honest, tmp_path / "lie", lambda c: dataclasses.replace(c, radius=0.32))
    found = lie.attack(whole(0), data=(x, [0, 1]), steps=10, draws=32, votes=200, workers=1)
    assert [one.index for one in found.false] == [0, 1]


def test_tables_and_pages_tell_the_routes(run: sc.Run, tmp_path: Path) -> None:
    assert "gaussian sigma routed" in run.table()
    (note,) = run.summary().rows
    assert note.note is not None
    assert note.note.startswith("routed: ")
    assert note.note.endswith("p_A, where it is shown, is the chosen classifier's and not the router's")
    page = run.report(tmp_path / "page.html").read_text()
    assert "answered with sigma 0.1; the choice holds within 0." in page


def test_votes_of_a_router_are_not_read_again_at_another_level(run: sc.Run) -> None:
    with pytest.raises(InputError, match="has a router, whose votes are not computed again"):
        sc.analysis.reanalyse(run.results(), alpha=0.01)


def test_what_does_not_go_with_a_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leave the search, weights per input and the memory out"):
        sc.certify(routed(), data(), procedure=FIXED, search=sc.Bracket(), out=tmp_path / "run")
    with pytest.raises(InputError, match="a Routed has its noise, seed, pool and backend already"):
        sc.certify(routed(), data(), noise=sc.Gaussian(0.1), out=tmp_path / "run")
    with pytest.raises(InputError, match="certify needs a noise"):
        sc.certify(plane(1), data(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_models_by_strength() -> None:
    found = models_of(["0.5=b", "0.25=a", "0.25=c"], "r", strength=0.4, share=0.3)
    assert found == RoutedModels("r", {0.25: ["a", "c"], 0.5: ["b"]}, 0.4, 0.3)
    assert models_of(["a"], None) == ["a"]
    for models, router, sentence in (
        (["0.25=a"], None, "names a strength, which goes with --router"),
        (["a", "0.5=b"], "r", "every --model is STRENGTH=MODEL"),
        (["0.5=a", "0.5=b"], "r", "two or more, got 1"),
    ):
        with pytest.raises(InputError, match=sentence):
            models_of(models, router)
    with pytest.raises(InputError, match="go with --router"):
        models_of(["a"], None, strength=0.4)
