"""`Smoothed` through a memory: inserted in the order of the inputs, asked before any draw."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.memory.protocol import insert_in_order
from smoothcert.procedures import Certificate

QUICK = sc.Fixed(n0=20, n=300)


class Stripes(nn.Module):
    """Stripes of class 1 in class 0: little noise sees them, much noise does not, and their regions conflict."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stripes = torch.sin(5 * x[:, :1]) + 0.6
        return torch.cat([stripes, -stripes, stripes - 9], dim=1)


def network() -> nn.Module:
    return Stripes()


def points(count: int = 40) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(count, 2), scale=0.6).astype(np.float32))


def noises(count: int = 40) -> list[sc.Gaussian]:
    return [sc.Gaussian(float(sigma)) for sigma in np.random.default_rng(1).choice([0.06, 0.8, 1.5], count)]


def test_certificates_are_of_the_memory_and_say_what_it_changed(tmp_path: Path) -> None:
    memory = sc.Memory(tmp_path / "m.sqlite")
    g = sc.Smoothed(network(), 3, sc.Gaussian(0.5), memory=memory, workers=1)
    alone = sc.Smoothed(network(), 3, sc.Gaussian(0.5), workers=1).certify(points(), QUICK, noises=noises())
    through = g.certify(points(), QUICK, noises=noises())
    assert {c.scope for c in alone} == {sc.Scope.OWN}
    assert {c.scope for c in through} == {sc.Scope.MEMORY}
    assert [c.as_drawn() for c in through] == alone
    assert sum(c.cut for c in through) >= 3
    assert sum(c.overruled for c in through) >= 3
    for own, c in zip(alone, through, strict=True):
        assert c.overruled or c.supplied or c.label in (own.label, sc.ABSTAIN)
    assert memory.check() == []
    assert {c.scope for c in g.certify(points(2), QUICK)} == {sc.Scope.MEMORY}, "with one noise for all as well"


def test_the_order_of_inputs_decides_and_nothing_else(tmp_path: Path) -> None:
    """Sequential decides inputs in another order than they come in; workers and restarts change it again."""
    procedure = sc.Sequential(radius=[0.05, 0.15], n=1_000)
    runs = []
    for name, workers, parts in (("a", 1, 1), ("b", 2, 1), ("c", 1, 4)):
        memory = sc.Memory(tmp_path / name)
        g = sc.Smoothed(network(), 3, sc.Gaussian(0.5), memory=memory, workers=workers)
        chunks = zip(points().chunk(parts), np.array_split(np.array(noises(), dtype=object), parts), strict=True)
        answers = [list(g.certifying(x, procedure, noises=list(own))) for x, own in chunks]
        assert all([row for row, _ in part] == list(range(len(part))) for part in answers)
        runs.append([(c.label, c.radius, c.from_draws) for part in answers for _, c in part])
    assert runs[0] == runs[1] == runs[2]
    assert sum(own is not None and own.cut_by is not None for _, _, own in runs[0]) >= 1


def test_inserted_waits_for_those_before() -> None:
    class Listening:
        heard: list[float]

        def insert(self, x: np.ndarray, certificate: Certificate) -> Certificate:
            self.heard.append(float(x[0]))
            return certificate

    memory = Listening()
    memory.heard = []
    found = sc.Smoothed(network(), 3, sc.Gaussian(0.5), workers=1).certify(points(1), QUICK)[0]
    decided = iter([(2, found), (0, found), (1, found), (3, found)])
    got = insert_in_order(memory, torch.arange(8.0).view(4, 2), decided)  # type: ignore[arg-type]
    assert next(got)[0] == 0
    assert memory.heard == [0.0], "the one that was decided first has to wait"
    assert [row for row, _ in got] == [1, 2, 3]
    assert memory.heard == [0.0, 2.0, 4.0, 6.0]


def test_a_region_answers_without_a_draw(tmp_path: Path) -> None:
    memory = sc.Memory(tmp_path / "m.sqlite")
    g = sc.Smoothed(network(), 3, sc.Gaussian(0.5), memory=memory, workers=1)
    first = g.certify(points(1), QUICK, noises=[sc.Gaussian(0.1)])[0]
    assert first.radius > 0
    near = points(1) + torch.tensor([[first.radius * 0.9, 0.0]])
    far = points(1) + 3
    inside, outside = g.predict(torch.cat([near, far]))
    assert (inside.label, inside.draws, inside.votes, inside.scope) == (first.label, 0, (), sc.Scope.MEMORY)
    assert inside.reason == "region 1 of the memory contains it and answers"
    assert (outside.draws, outside.scope) == (1_000, sc.Scope.FIXED)
    assert [p.label for p in g.predict(torch.cat([far, near]))] == [outside.label, inside.label]
    assert outside == sc.Smoothed(network(), 3, sc.Gaussian(0.5), workers=1).predict(far)[0]


def test_what_was_certified_during_the_draws_answers(tmp_path: Path) -> None:
    """A region of another class comes while a prediction is drawn: whoever is answered afterwards hears its class."""
    there, other = sc.Memory(tmp_path / "m.sqlite"), sc.Memory(tmp_path / "m.sqlite")
    certificate = sc.Smoothed(network(), 3, sc.Gaussian(0.5), workers=1).certify(points(1), QUICK)[0]
    asked = 0

    class Asked:
        def __getattr__(self, name: str) -> object:
            return getattr(there, name)

        def answer(self, x: np.ndarray) -> object:
            nonlocal asked
            asked += 1
            found = there.answer(x)
            if asked == 1:
                other.insert(x, dataclasses.replace(certificate, label=2, radius=0.1))
            return found

    g = sc.Smoothed(network(), 3, sc.Gaussian(0.5), memory=Asked(), workers=1)  # type: ignore[arg-type]
    (prediction,) = g.predict(points(1))
    assert (prediction.label, prediction.scope, asked) == (2, sc.Scope.MEMORY, 2)


def test_another_classifier_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    memory = sc.Memory(tmp_path / "m.sqlite")
    sc.Smoothed(network(), 3, sc.Gaussian(0.5), memory=memory, workers=1).certify(points(1), QUICK)
    drawn: list[int] = []
    for model, noise in ((nn.Linear(2, 3), sc.Gaussian(0.5)), (network(), sc.Uniform(0.5))):
        other = sc.Smoothed(model, 3, noise, memory=memory, workers=1)
        with pytest.raises(sc.InputError, match="belongs to another"):
            list(other.certifying(points(1), QUICK, on_draws=drawn.append))
        with pytest.raises(sc.InputError, match="belongs to another"):
            other.predict(points(1))
    bare = sc.Smoothed(lambda x: torch.cat([x, x[:, :1]], dim=1), 3, sc.Gaussian(0.5), memory=memory)
    with pytest.raises(sc.InputError, match="without a fingerprint"):
        bare.certify(points(1), QUICK)
    ablation = sc.Smoothed(network(), 3, sc.Gaussian(0.5, norm="linf"), memory=sc.Memory(tmp_path / "new"), workers=1)
    with pytest.raises(sc.InputError, match="got norm linf"):
        ablation.certify(points(1), QUICK)
    assert drawn == []
    assert not (tmp_path / "new").exists()
