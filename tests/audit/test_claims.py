"""The audit of votes alone: every noise and procedure, and no torch."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from simulated_runs import simulated_config

from smoothcert.audit import audit_run
from smoothcert.core.errors import InputError
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import (
    Ask,
    Budgeted,
    Certificate,
    Fixed,
    FromDraws,
    Procedure,
    Scope,
    Sequential,
    Staged,
    converse,
)
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.runs import Record, Run
from smoothcert.stats import EmpiricalBernstein, Hoeffding, Tally
from smoothcert.stats.tally import SCORE_UNIT

BESIDE = torch.full((1, 2, 2), 0.3)  # no multiple of 1/255
NOISES: dict[str, Noise] = {
    "gaussian": Gaussian(0.3),
    "linf": Gaussian(0.5, "linf", 4),
    "grid": Gaussian(0.3, grid=1 / 255).at(BESIDE),
    "uniform": Uniform(0.7),
    "laplace": Laplace(0.3),
    "ablation": Ablation(keep=0.6, values=2),
}
UNIT = round(1 / SCORE_UNIT)


def procedures(noise: Noise) -> dict[str, Procedure]:
    reach = 1.0 if noise.norm == "l0" else noise.radius(0.7)
    return {
        "fixed": Fixed(n=500),
        "runner-up": Fixed(n=500, runner_up=True),
        "hoeffding": Fixed(n=500, bound=Hoeffding()),
        "bernstein": Fixed(n=500, bound=EmpiricalBernstein(4.0), runner_up=True),
        "staged": Staged(radius=reach, stages=(100, 400)),
        "sequential": Sequential(radius=[reach, 1.5 * reach], n=1_000),
        "budgeted": Budgeted(most=1_000, pilot=100),
    }


def tally(ask: Ask, share: float) -> Tally:
    first = round(ask.n * share)
    votes = (first, ask.n - first, 0)
    if ask.beta is None:
        return Tally(votes)
    return Tally(votes, tuple(v * UNIT for v in votes), tuple(v * UNIT * UNIT for v in votes))


def certificate(noise: Noise, procedure: Procedure, share: float, name: str) -> Certificate:
    made = converse(procedure.certify(noise), lambda ask: tally(ask, share))
    return dataclasses.replace(made, noise=noise.describe(), input_id=name)


def written(path: Path, noise: Noise, procedure: Procedure) -> Run:
    shares = [1.0, 0.97, 0.8, 0.6, 0.5]
    described = {key: value for key, value in noise.describe().items() if key != "offset"}
    about: dict[str, Any] = {"noise": described, "procedure": procedure.describe(), "classifier": {}, "num_classes": 3}
    run = Run.start(path, simulated_config(range(len(shares)), labels=(0,) * len(shares), **about))
    with run.writing() as writer:
        for i, share in enumerate(shares):
            writer.append(Record.of(i, 0, certificate(noise, procedure, share, str(i)), 0.5))
    return run


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kind", procedures(Gaussian(0.3)))
def test_every_noise_and_procedure_is_computed_again_to_the_last_bit(tmp_path: Path, noise: Noise, kind: str) -> None:
    procedure = procedures(noise)[kind]
    assert Procedure.from_description(procedure.describe()) == procedure
    audit = audit_run(written(tmp_path, noise, procedure))
    assert (audit.findings, audit.exact, audit.holding()) == ((), True, 5)
    assert max(record.radius for record in audit.records) > 0


def test_scores_that_cannot_be_are_found(tmp_path: Path) -> None:
    procedure = Fixed(n=500, bound=Hoeffding())
    good = certificate(Gaussian(0.5), procedure, 0.9, "0")
    geometry = Noise.from_description(good.noise)
    assert replay(good, procedure, geometry).radius == good.radius
    (choose, bound) = good.answers
    n = 500
    for change in [
        Tally(bound[1].votes),
        Tally(bound[1].votes, (n * UNIT + 1, 0, 0), (n * UNIT**2, 0, 0)),
        Tally(bound[1].votes, (n * UNIT, 1, 0), (n * UNIT**2, 1, 0)),
        Tally(bound[1].votes, (n * UNIT, 0, 0), (n * UNIT**2 - 1, 0, 0)),
        Tally(bound[1].votes, (UNIT, 0, 0), (UNIT**2 + 1, 0, 0)),
    ]:
        changed = dataclasses.replace(good, answers=(choose, ("bound", change)))
        with pytest.raises(DrawsError, match="scores of the 500 draws"):
            replay(changed, procedure, geometry)


def test_a_memory_is_not_shown_by_votes(tmp_path: Path) -> None:
    run = written(tmp_path, Gaussian(0.3), Fixed(n=500))
    records = run.records()
    (tmp_path / "records.jsonl").unlink()
    with run.writing() as writer:
        for record in records:
            assert record.certificate is not None
            region = None if record.abstained else 1
            own = FromDraws(record.prediction, record.radius, record.certificate.reason, region)
            scoped = dataclasses.replace(record.certificate, scope=Scope.MEMORY, from_draws=own)
            writer.append(Record.of(record.index, record.label, scoped, 0.5))
    assert {finding.check for finding in audit_run(run).findings} == {"scope"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "magic"}, {"name": None}, {"n": 0}, {"n": "500"}, {"alpha": 2}, {"alpha": None}, {"beta": 0.1},
        {"bound": None}, {"bound": {"name": "guess"}}, {"bound": {"name": "hoeffding", "inverse_temperature": -1}},
        {"n0": 10**400, "n": 1},
    ],
    ids=str,
)  # fmt: skip
def test_procedures_that_cannot_be_are_refused(change: dict) -> None:
    with pytest.raises(InputError, match="no procedure"):
        Procedure.from_description(Fixed(n=500).describe() | change)
    with pytest.raises(InputError, match="describes no procedure: n is missing"):
        Procedure.from_description({key: value for key, value in Fixed().describe().items() if key != "n"})


def test_the_audit_needs_no_torch() -> None:
    code = "import sys, smoothcert.audit.claims, smoothcert.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
