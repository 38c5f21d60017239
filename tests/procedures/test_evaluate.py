"""Evaluate: what Fixed says of right answers, and nothing of wrong ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert as sc
from smoothcert.analysis.board import bound_draws
from smoothcert.analysis.draw_savings import draw_savings
from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Evaluate, Fixed, converse
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.procedures.routed import split_level
from smoothcert.stats import Tally

NOISE = Gaussian(0.5)
DRAWS = {"n0": 20, "n": 300}


def voter(p: tuple[float, ...], seed: int) -> Callable[[Ask], Tally]:
    rng = np.random.default_rng(seed)
    return lambda ask: Tally(tuple(int(v) for v in rng.multinomial(ask.n, p)))


@pytest.mark.parametrize("p", [(0.9, 0.05, 0.05), (0.55, 0.45, 0.0), (0.4, 0.35, 0.25), (0.1, 0.9, 0.0)])
def test_right_answers_are_those_of_fixed_and_wrong_ones_take_no_draws(p: tuple[float, ...]) -> None:
    chosen = set()
    for seed in range(40):
        fixed = converse(Fixed(**DRAWS).certify(NOISE), voter(p, seed))
        found = converse(Evaluate(**DRAWS).knowing(0).certify(NOISE), voter(p, seed))
        chosen.add(fixed.candidate)
        if fixed.candidate == 0:
            assert replace(found, procedure=fixed.procedure) == fixed
        else:
            assert (found.abstained, found.radius, found.p_lower, found.draws) == (True, 0.0, 0.0, 20)
            assert f"class {fixed.candidate} was chosen, the label is 0" in str(found)
    assert chosen - {0} or p[0] > 0.5, "both are tried"


def test_the_label_belongs_to_the_record() -> None:
    wrong = converse(Evaluate(**DRAWS).knowing(1).certify(NOISE), voter((0.9, 0.1), 0))
    assert "truth" not in wrong.procedure
    assert replay(wrong, Evaluate(**DRAWS).knowing(1), NOISE) == wrong
    with pytest.raises(DrawsError, match="asks for 300 draws"):  # as if the answer had been right
        replay(wrong, Evaluate(**DRAWS).knowing(0), NOISE)


def test_without_labels_it_is_refused(tmp_path: Path) -> None:
    x = torch.rand(2, 4)
    with pytest.raises(sc.InputError, match="needs the label of every input"):
        sc.Smoothed(identity, 4, NOISE).certify(x, Evaluate(**DRAWS))
    with pytest.raises(sc.InputError, match="needs the label of every input"):
        sc.certify(identity, x, noise=NOISE, procedure=Evaluate(**DRAWS), out=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("n", [1, 9, True, 10**9])
def test_what_could_never_certify_is_refused(n: int) -> None:
    with pytest.raises(sc.InputError, match="n must be"):
        Evaluate(n=n)


def test_neither_a_router_nor_a_memory_may_see_labels(tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match="a router has none"):
        split_level(Evaluate(**DRAWS), 0.5)
    data = torch.rand(3, 4), [0, 1, 2]
    with pytest.raises(sc.InputError, match="what a memory answers must not"):
        sc.certify(
            model(), data, noise=NOISE, procedure=Evaluate(**DRAWS), out=tmp_path / "run", memory=tmp_path / "m.sqlite"
        )
    assert not (tmp_path / "run").exists()


def test_a_run_has_the_tables_of_fixed_and_is_audited_and_resumed(tmp_path: Path) -> None:
    x = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    y = [int(row.argmax()) if i % 3 else 3 - int(row.argmax()) for i, row in enumerate(x)]  # a third is wrong

    def made(procedure: sc.procedures.Procedure, name: str) -> sc.Run:
        return sc.certify(model(), (x, y), noise=Gaussian(0.1), procedure=procedure, out=tmp_path / name, workers=1)

    fixed, run = made(Fixed(**DRAWS), "fixed"), made(Evaluate(**DRAWS), "run")
    pairs = list(zip(fixed.records(), run.records(), strict=True))
    right = [(a, b) for a, b in pairs if a.certificate.candidate == a.label]
    assert 0 < len(right) < len(pairs)
    for a, b in right:
        assert (b.prediction, b.radius, b.certificate.answers) == (a.prediction, a.radius, a.certificate.answers)
    assert all((b.abstained, b.draws) == (True, 20) for a, b in pairs if (a, b) not in right)
    acrs = [sc.measures.average_certified_radius(one.results().records) for one in (run, fixed)]
    assert acrs[0] == acrs[1] > 0
    assert run.verify(model=model()).holds
    file = run.path / "records.jsonl"
    before = file.read_bytes()
    file.write_bytes(b"".join(before.splitlines(keepends=True)[:5]))
    assert [r.certificate for r in made(Evaluate(**DRAWS), "run").records()] == [b.certificate for _, b in pairs]


def test_the_same_image_with_two_labels_is_no_finding(tmp_path: Path) -> None:
    one, other = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.0, 0.9, 0.1, 0.0]])
    data = torch.stack([one, one, other, one]), [1, 0, 1, 2]  # one is right once, and wrong twice
    run = sc.certify(model(), data, noise=Gaussian(0.05), procedure=Evaluate(**DRAWS), out=tmp_path / "run", workers=1)
    assert [record.abstained for record in run.records()] == [True, False, False, True]
    assert run.verify(model=model()).holds


def test_what_it_saves_by_labels_is_not_called_a_saving(tmp_path: Path) -> None:
    data = torch.eye(4), [0, 1, 2, 0]
    run = sc.certify(model(), data, noise=Gaussian(0.05), procedure=Evaluate(**DRAWS), out=tmp_path / "run", workers=1)
    found = run.results()
    assert "given up, and stand among the abstentions" in str(found.settings.note)
    assert draw_savings(found, []) is None
    assert bound_draws(found) == (300, 0.001), "so it can stand beside published logs of fewer draws"


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Identity())


def test_smoothed_takes_labels_with_the_inputs(tmp_path: Path) -> None:
    x = torch.eye(4)[:2]
    g = Smoothed(model(), 4, Gaussian(0.05), workers=1)
    found = dict(g.certifying(x, Evaluate(**DRAWS), labels=[0, 0]))
    assert (found[0].label, found[1].abstained) == (0, True)
    with pytest.raises(sc.InputError, match="labels must be one per input, got 1 for 2"):
        list(g.certifying(x, Evaluate(**DRAWS), labels=[0]))
    with sc.Memory(tmp_path / "m.sqlite") as memory:
        remembering = Smoothed(model(), 4, Gaussian(0.05), workers=1, memory=memory)
        with pytest.raises(sc.InputError, match="a memory answers must not"):
            list(remembering.certifying(x, Evaluate(**DRAWS), labels=[0, 0]))
