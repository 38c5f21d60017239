"""Attacks on classifiers whose true distances are known: they find what is there, and nothing where nothing is."""

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from smoothcert import Fixed, Gaussian, InputError, Smoothed, Uniform
from smoothcert.attack.adversaries import AttackEffort, _autoattack, left_out
from smoothcert.attack.campaign import AttackCampaign, strictly_inside
from smoothcert.attack.records import Attacked
from smoothcert.attack.table import attack_table, robust_accuracies
from smoothcert.runs import Record

EFFORT = AttackEffort(steps=10, draws=32)
RADII = (0.1, 0.2, 0.4, 0.8)


def halves(dim: int = 6) -> nn.Linear:
    """Class 1 beyond the plane sum(x)/sqrt(dim) = sqrt(dim)/2; the smoothed classifier has the same plane."""
    model = nn.Linear(dim, 2)
    with torch.no_grad():
        model.weight[0], model.weight[1] = 0.0, 8.0 / dim**0.5
        model.bias[0], model.bias[1] = 0.0, -4.0 * dim**0.5
    return model


def distance(x: torch.Tensor) -> torch.Tensor:
    """To the plane, (B,)."""
    return (x.sum(dim=1) - x.shape[1] / 2).abs() / x.shape[1] ** 0.5


def inputs(count: int = 6, levels: int | None = None) -> torch.Tensor:
    x = torch.rand(count, 6, generator=torch.Generator().manual_seed(3))
    return x if levels is None else (x * levels).round() / levels


def campaign(noise: Gaussian, *adversaries: str, radii: tuple[float, ...] = RADII) -> AttackCampaign:
    smoothed, judge = (Smoothed(halves(), 2, noise, seed=seed, workers=1) for seed in (0, 1))
    return AttackCampaign(smoothed, judge, adversaries or ("pgd", "ddn"), radii, EFFORT)


def records(of: AttackCampaign, x: torch.Tensor, n: int = 2_000) -> list[Record]:
    made = of.smoothed.certify(x, Fixed(n=n))
    truth = (x.sum(dim=1) > x.shape[1] / 2).long().tolist()
    return [Record.of(i, truth[i], certificate, 0.1) for i, certificate in enumerate(made)]


@pytest.mark.parametrize("noise", [Gaussian(0.25), Gaussian(0.25, grid=1 / 255)], ids=["float32", "grid"])
def test_no_attack_succeeds_below_the_radius_and_those_beyond_come_near_the_truth(noise: Gaussian) -> None:
    of, x = campaign(noise), inputs(levels=255)
    found = list(of.attack(x, records(of, x)))
    assert [a.violation for a in found] == [None] * len(x)
    for attacked, true in zip(found, distance(x).tolist(), strict=True):
        assert attacked.answer == attacked.label
        assert attacked.radius <= true
        for name in ("pgd", "ddn"):
            # A vote of 1000 draws is another answer from a hair beyond the plane on: never from the near side.
            assert attacked.survives(0.97 * true, name)
            reached = [r for r in RADII if r > true + 0.03]
            if reached:
                nearest = attacked.distances[name]
                assert nearest is not None
                assert true * 0.97 <= nearest < reached[0], name


def test_a_false_certificate_is_found_and_named() -> None:
    of, x = campaign(Gaussian(0.25)), inputs()
    honest = records(of, x)
    forged = [dataclasses.replace(r, radius=2 * float(distance(x)[i]) + 0.1) for i, r in enumerate(honest)]
    found = list(of.attack(x, forged))
    for attacked, true in zip(found, distance(x).tolist(), strict=True):
        violation = attacked.violation
        assert violation is not None
        assert violation.answer == 1 - attacked.label
        assert violation.p_value < 1e-6
        assert true < violation.distance < attacked.radius
        assert not attacked.survives(violation.distance, violation.adversary)


def test_an_abstention_and_a_wrong_answer_have_nothing_to_refute() -> None:
    of, x = campaign(Gaussian(0.25)), inputs(2)
    first, second = records(of, x)
    wrong = dataclasses.replace(second, label=1 - second.label)
    abstained, other = of.attack(x, [dataclasses.replace(first, prediction=-1, radius=0.0), wrong])
    assert abstained.violation is None
    assert other.violation is None
    assert not other.survives(0.0)
    assert other.distances == {"pgd": None, "ddn": None}


@pytest.mark.parametrize("name", ["foolbox:L2PGD", "autoattack"])
def test_the_attacks_of_other_packages(name: str) -> None:
    pytest.importorskip(name.partition(":")[0].replace("autoattack", "pyautoattack"))
    of, x = campaign(Gaussian(0.25), name, radii=(1.2,)), inputs(2)
    for attacked, true in zip(of.attack(x, records(of, x)), distance(x).tolist(), strict=True):
        nearest = attacked.distances[name]
        assert attacked.violation is None
        assert true < 1.1
        assert nearest is not None
        assert 0.97 * true <= nearest < 1.2


class Recording:
    """Stands in for nothing: the package's own attack, whose settings are kept."""

    def __init__(self, package: Any) -> None:
        self.package, self.made = package, list[Any]()

    def AutoAttack(self, *arguments: Any, **options: Any) -> Any:
        self.made.append(self.package.AutoAttack(*arguments, **options))
        self.made[-1].square.n_queries = 20  # 5000 of them are the same, and slow
        return self.made[-1]


@pytest.mark.parametrize(
    ("classes", "shape", "attacks", "targets"),
    [
        (10, (1, 8, 8), ["apgd-ce", "apgd-t", "fab-t", "square"], 9),
        (4, (3, 28, 28), ["apgd-ce", "apgd-t", "fab-t", "square"], 3),
        (12, (1, 14, 14), ["apgd-ce", "apgd-t", "fab-t"], 9),
        (3, (1, 32, 32), ["apgd-ce", "fab-t", "square"], 2),
        (2, (6,), ["apgd-ce", "fab-t"], 1),
    ],
)
def test_autoattack_is_its_standard_set_less_what_it_says(
    classes: int, shape: tuple[int, ...], attacks: list[str], targets: int
) -> None:
    package = Recording(pytest.importorskip("pyautoattack"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes, bias=False))
    with torch.no_grad():
        model[1].weight[:] = torch.eye(classes, math.prod(shape))  # class i where pixel i is the largest
    x = torch.full((1, *shape), 0.5)
    x.view(-1)[0] = 0.7
    found = _autoattack(package, model, x, torch.tensor([0]), 2.0)
    (made,) = package.made
    assert made.attacks_to_run == attacks
    assert made.apgd_targeted.n_target_classes == made.fab.n_target_classes == targets
    assert int(model(found).argmax()) != 0
    # Each of them alone: none fails on such a classifier.
    for name in attacks:
        made.attacks_to_run = [name]
        points, _ = made.run_standard_evaluation(x, torch.tensor([0]))
        assert float((points - x).norm()) <= 2.0 + 1e-5, name
    assert set(left_out("autoattack", classes, shape)) == {"apgd-ce", "apgd-t", "fab-t", "square"} - set(attacks)


def test_what_was_left_out_is_in_the_record_and_below_the_table() -> None:
    pytest.importorskip("pyautoattack")
    quick = AttackEffort(steps=2, draws=2)
    of, x = dataclasses.replace(campaign(Gaussian(0.25), "autoattack", "pgd", radii=(1.2,)), effort=quick), inputs(1)
    found = [Attacked.from_json(json.loads(json.dumps(a.to_json()))) for a in of.attack(x, records(of, x))]
    reasons = {"apgd-t": "its loss needs 4 classes, there are 2", "square": "its squares do not fit inputs of shape 6"}
    assert [a.left_out for a in found] == [{"autoattack": reasons}]
    rows = robust_accuracies(found, [0.0, 1.2])
    said = "Left out: autoattack without apgd-t (its loss needs 4 classes, there are 2); autoattack without square"
    assert said in attack_table(rows).caption
    assert rows[0].to_json()["left_out"][1] == "autoattack without square (its squares do not fit inputs of shape 6)"
    assert (
        "Left out" not in attack_table(robust_accuracies([dataclasses.replace(found[0], left_out={})], [0.0])).caption
    )


@pytest.mark.parametrize("seed", range(4))
def test_an_attack_of_smallest_norm_goes_on_to_the_radius(seed: int) -> None:
    """Its point is a hair beyond the boundary that some draws show: on either side of the true one, as it happens."""
    pytest.importorskip("foolbox")
    name, x = "foolbox:L2DeepFoolAttack", inputs(4)
    smoothed, judge = (Smoothed(halves(), 2, Gaussian(0.25), seed=s, workers=1) for s in (seed, seed + 100))
    of = AttackCampaign(smoothed, judge, (name,), (1.2,), EFFORT)
    for attacked, true in zip(of.attack(x, records(of, x)), distance(x).tolist(), strict=True):
        nearest = attacked.distances[name]
        assert nearest is not None
        assert 0.9 * true <= nearest < 1.2


@pytest.mark.parametrize("levels", [None, 255])
def test_points_are_strictly_inside_and_on_the_grid(levels: int | None) -> None:
    x = inputs(50, levels)
    away = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    points = (x + away / away.norm(dim=1, keepdim=True) * 0.3).clamp(0, 1)
    radii = torch.linspace(1e-6, 0.3, 50, dtype=torch.float64)
    inside, norms = strictly_inside(x, points, radii, levels)
    exact = (inside.double() - x.double()).norm(dim=1)
    assert bool((exact < radii).all())
    assert bool((exact <= torch.tensor(norms, dtype=torch.float64)).all())
    wanted = torch.minimum((points.double() - x.double()).norm(dim=1), radii)
    lost = 0.0 if levels is None else 2 * 6**0.5 / levels  # at most two grid steps a coordinate, towards x
    assert bool((exact >= 0.999 * wanted - lost - 1e-7).all())
    if levels is not None:
        assert torch.equal(inside, (inside * levels).round() / levels)


def test_what_cannot_be_attacked_is_refused() -> None:
    plain = Smoothed(halves(), 2, Gaussian(0.25))
    with pytest.raises(InputError, match="Gaussian noise"):
        AttackCampaign(Smoothed(halves(), 2, Uniform(0.5)), plain)
    with pytest.raises(InputError, match="gradients"):
        AttackCampaign(Smoothed(lambda x: x[:, :2], 2, Gaussian(0.25)), plain)
    with pytest.raises(InputError, match="pgd, ddn"):
        AttackCampaign(plain, plain, ("fgsm",))
    with pytest.raises(InputError, match="no attack of that name"):
        AttackCampaign(plain, plain, ("foolbox:Nothing",))


def test_what_was_found_survives_json() -> None:
    of, x = campaign(Gaussian(0.25)), inputs(1)
    forged = [dataclasses.replace(r, radius=2.0) for r in records(of, x)]
    (found,) = of.attack(x, forged)
    assert found.violation is not None
    assert Attacked.from_json(found.to_json()) == found
    for damage in ({"index": "0"}, {"radius": -1}, {"distances": {"pgd": float("nan")}}):
        with pytest.raises(InputError):
            Attacked.from_json(found.to_json() | damage)
