"""A run that is killed at any moment and resumed has the same records as one that was not."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from simulated_runs import read_run

from smoothcert.audit import audit_run
from smoothcert.core.errors import InputError
from smoothcert.datasets import Subset, load
from smoothcert.engine import Smoothed
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Sequential
from smoothcert.runs import Run
from smoothcert.workflows.recording import certify_into, run_config

INPUTS = 40


def checkpoint(folder: Path) -> Path:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(folder / "net.safetensors", build(spec, seed=0), spec, {"noise": Gaussian(0.25).describe()})
    return folder / "net.safetensors"


def command(model: Path, out: Path) -> list[str]:
    options = f"--data digits --n 2000 --every 5 --limit {INPUTS} --workers 1"
    return [sys.executable, "-m", "smoothcert", "certify", "--model", str(model), "--out", str(out), *options.split()]


def lines(out: Path) -> int:
    file = out / "records.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def without_times(out: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read_run(out)[1]]


@pytest.mark.slow
def test_ten_kills_change_nothing(tmp_path: Path) -> None:
    model, random_ = checkpoint(tmp_path), random.Random(0)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command(model, tmp_path / "whole"), check=True, capture_output=True, env=environment)
    out, killed = tmp_path / "killed", 0
    while killed < 10:
        process = subprocess.Popen(
            command(model, out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment
        )
        before = lines(out)
        while process.poll() is None and lines(out) < before + 2:
            time.sleep(0.005)
        time.sleep(random_.uniform(0, 0.1))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
        else:
            break
    assert killed == 10, "the run ended before it was killed ten times: give it more inputs"
    assert 0 < lines(out) < INPUTS
    subprocess.run(command(model, out), check=True, capture_output=True, env=environment)
    whole, resumed = without_times(tmp_path / "whole"), without_times(out)
    assert sorted(record["index"] for record in resumed) == [5 * i for i in range(INPUTS)], "none lost, none doubled"
    assert sorted(resumed, key=lambda r: r["index"]) == sorted(whole, key=lambda r: r["index"])
    assert Run.open(out).config == Run.open(tmp_path / "whole").config
    assert audit_run(Run.open(out)).findings == ()


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    model, out = checkpoint(tmp_path), tmp_path / "run"
    process = subprocess.Popen(
        command(model, out),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    while process.poll() is None and lines(out) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    assert 3 <= lines(out) < INPUTS
    subprocess.run(command(model, out), check=True, capture_output=True)
    assert lines(out) == INPUTS


def test_resume_certifies_only_what_is_missing(tmp_path: Path) -> None:
    data = load("digits")
    smoothed = Smoothed(build(Architecture("lenet", 10, (1, 8, 8)), seed=0), 10, Gaussian(0.25), workers=1)
    config = run_config(smoothed, Fixed(n=100), data, Subset(limit=6))
    run = Run.start(tmp_path, config)
    seen: list[int] = []

    def stop_after_two(record: object) -> None:
        seen.append(record.index)  # type: ignore[attr-defined]
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_into(run, smoothed, Fixed(n=100), data, on_record=stop_after_two)
    assert len(run.records()) == 2, "what was announced is on disk"
    certify_into(Run.start(tmp_path, config), smoothed, Fixed(n=100), data, on_record=lambda r: seen.append(r.index))
    assert sorted(seen) == list(range(6))
    labels = {record.index: record.label for record in run.records()}
    assert labels == {i: int(data.labels[i]) for i in range(6)}


def test_a_sequential_run_interrupted_inside_looks_is_the_same(tmp_path: Path) -> None:
    """Stopped after any number of draws and resumed, again and again: looks are never repeated with luck."""
    data, procedure = load("digits"), Sequential(radius=[0.05, 0.1], n=3_000)
    smoothed = Smoothed(build(Architecture("lenet", 10, (1, 8, 8)), seed=0), 10, Gaussian(0.25), workers=1)
    config = run_config(smoothed, procedure, data, Subset(limit=5))
    whole = Run.start(tmp_path / "whole", config)
    certify_into(whole, smoothed, procedure, data)
    run, random_ = Run.start(tmp_path / "stopped", config), random.Random(0)
    for _ in range(30):
        left = [random_.randrange(100, 4_000)]

        def stop(draws: int, left: list[int] = left) -> None:
            left[0] -= draws
            if left[0] < 0:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            certify_into(run, smoothed, procedure, data, on_draws=stop)
    certify_into(run, smoothed, procedure, data)
    assert [r.certificate for r in run.records()] == [r.certificate for r in whole.records()]
    assert len({r.certificate.draws for r in run.records() if r.certificate}) > 1, "inputs differ in how long they take"


def test_the_records_draw_the_same_noise_again(tmp_path: Path) -> None:
    """A record holds what is needed to draw its votes again: seed, input, noise, procedure."""
    data = load("digits")
    model = build(Architecture("lenet", 10, (1, 8, 8)), seed=0)
    smoothed = Smoothed(model, 10, Gaussian(0.25), seed=11, workers=1)
    run = Run.start(tmp_path, run_config(smoothed, Fixed(n=300), data, Subset(start=3, every=7, limit=3)))
    certify_into(run, smoothed, Fixed(n=300), data)
    for record in Run.open(tmp_path).records():
        old = record.certificate
        assert old is not None
        again = Smoothed(model, 10, Gaussian(old.noise["sigma"]), seed=old.seed).certify(
            data.tensors([record.index]), Fixed(n0=old.procedure["n0"], n=old.procedure["n"], alpha=old.alpha)
        )[0]
        assert again == old


def test_a_model_for_fewer_classes_is_refused() -> None:
    smoothed = Smoothed(lambda x: torch.zeros(len(x), 3), 3, Gaussian(0.25))
    with pytest.raises(InputError, match="has 10 classes but the model answers 3"):
        run_config(smoothed, Fixed(n=100), load("digits"), Subset())


def test_a_run_is_never_continued_with_something_else(tmp_path: Path) -> None:
    data = load("digits")
    net = build(Architecture("lenet", 10, (1, 8, 8)), seed=0)
    smoothed, procedure = Smoothed(net, 10, Gaussian(0.25), workers=1), Fixed(n=100)
    run = Run.start(tmp_path / "net", run_config(smoothed, procedure, data, Subset(limit=2)))
    for what, others in {
        "classifier": (
            Smoothed(build(Architecture("lenet", 10, (1, 8, 8)), seed=1), 10, Gaussian(0.25)),
            procedure,
            data,
        ),
        "noise": (Smoothed(net, 10, Gaussian(0.5), workers=1), procedure, data),
        "procedure": (smoothed, Fixed(n=101), data),
        "seed": (Smoothed(net, 10, Gaussian(0.25), seed=1), procedure, data),
        "data": (smoothed, procedure, load("digits", "train")),
    }.items():
        with pytest.raises(InputError, match=f"started with another {what}"):
            certify_into(run, *others)
    assert run.records() == []

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 10)

    plain = Smoothed(function, 10, Gaussian(0.25))
    run = Run.start(tmp_path / "function", run_config(plain, procedure, data, Subset(limit=2)))
    certify_into(run, plain, procedure, data)
    with pytest.raises(InputError, match="without a fingerprint"):
        certify_into(run, plain, procedure, data)
