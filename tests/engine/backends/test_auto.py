"""auto measures and chooses; a resumed run goes on with what was chosen."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.engine import Smoothed, compiled
from smoothcert.engine.backends import BACKENDS, BackendTask, Executable, auto, installed, prepare
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed

needs_onnx = pytest.mark.skipif(not installed("onnxruntime"), reason="onnxruntime needs the extra onnx")


def rates(monkeypatch: pytest.MonkeyPatch, fast: str, rows: int) -> None:
    """Measured rates as we like them: the backend `fast` wins, and `rows` rows win.

    Whether draws may share a call is up to the processor's kernels, and no question here.
    """

    def throughput(executable: Executable, task: BackendTask, workers: int, seconds: float) -> float:
        return (2.0 if executable.description["name"] == fast else 1.0) + (0.5 if task.rows == rows else 0.0)

    monkeypatch.setattr(auto, "throughput", throughput)
    monkeypatch.setattr(auto, "packs", lambda *_: True)
    monkeypatch.setattr(auto, "_chosen", {})


@needs_onnx
def test_auto_takes_the_fastest_and_never_int8(net: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("eager", "onnxruntime"):
        for rows in (128, 384):
            rates(monkeypatch, name, rows)
            g = Smoothed(net, 3, Gaussian(0.1), backend="auto", input_shape=(1, 8, 8), workers=1)
            about = g.describe()
            assert (about["backend"]["name"], about["batch"]) == (name, rows)
            assert g.certify(torch.rand(1, 1, 8, 8), Fixed(n0=10, n=200))[0].classifier == about
    assert not any(BACKENDS[name].int8 for name in auto.CANDIDATES)


def test_a_given_batch_size_is_kept(net: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    rates(monkeypatch, "eager", 128)
    g = Smoothed(net, 3, Gaussian(0.1), backend="auto", batch_size=256, input_shape=(1, 8, 8))
    assert g.describe()["batch"] == 256


def test_what_was_chosen_is_remembered_and_what_is_measured_is_said(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates(monkeypatch, "eager", 384)
    said: list[str] = []
    arguments: dict[str, Any] = {"backend": "auto", "input_shape": (1, 8, 8), "workers": 1}
    first = Smoothed(net, 3, Gaussian(0.1), **arguments).compile((1, 8, 8), say=said.append)
    assert "measuring eager, 128 rows per call, 1 workers" in said
    assert any(text.startswith("eager, 384 rows per call, 1 workers: ") for text in said)
    monkeypatch.setattr(auto, "throughput", lambda *_: pytest.fail("measured again"))
    again = Smoothed(net, 3, Gaussian(0.2), **arguments).compile((1, 8, 8))
    assert (again.description, again.workers) == (first.description, first.workers)


def test_there_is_a_limit_to_measuring_and_eager_is_always_measured(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates(monkeypatch, "onnxruntime", 384)
    monkeypatch.setattr(auto, "SECONDS", 0.0)
    about = Smoothed(net, 3, Gaussian(0.1), backend="auto", input_shape=(1, 8, 8)).describe()
    assert (about["backend"]["name"], about["batch"]) == ("eager", 128)


def test_throughput_counts_rows_of_all_workers(net: nn.Module) -> None:
    task = BackendTask(net, None, torch.device("cpu"), (1, 8, 8), 128)
    assert auto.throughput(prepare("eager", task), task, 2, 0.05) > 128


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {"noise": Gaussian(0.25).describe()})
    return tmp_path / "net.safetensors"


def certify(checkpoint: Path, *more: str) -> tuple[int, str]:
    options = ["--data", "digits", "--n", "200", "--out", str(checkpoint.parent / "run"), "--workers", "1", *more]
    result = CliRunner().invoke(app, ["certify", "--model", str(checkpoint), *options])
    return result.exit_code, " ".join(result.output.split())


@needs_onnx
def test_a_resumed_run_keeps_what_auto_chose(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates(monkeypatch, "onnxruntime", 384)
    assert certify(checkpoint, "--backend", "auto", "--limit", "3")[0] == 0
    run = checkpoint.parent / "run"
    chosen = json.loads((run / "run.json").read_text())["config"]["classifier"]
    assert (chosen["backend"]["name"], chosen["batch"]) == ("onnxruntime", 384)
    lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
    (run / "records.jsonl").write_bytes(b"".join(lines[:1]))  # as if it had been killed
    monkeypatch.setattr(compiled, "fastest", lambda *_, **__: pytest.fail("measured again"))
    assert certify(checkpoint, "--backend", "auto", "--limit", "3")[0] == 0
    assert len((run / "records.jsonl").read_bytes().splitlines()) == 3
    status, said = certify(checkpoint, "--backend", "auto", "--batch-size", "128", "--limit", "3")
    assert (status, "was started with" in said) == (2, True), "what is given is not overridden"
    assert "--batch-size" in said
    status, said = certify(checkpoint, "--backend", "eager", "--limit", "3")
    assert status != 0
    assert "--backend" in said


def test_calibration_at_the_command_line(checkpoint: Path) -> None:
    status, said = certify(checkpoint, "--calibration", "digits", "--limit", "1")
    assert status != 0
    assert "--calibration goes with an int8 backend" in said
    if not installed("onnxruntime-int8"):
        pytest.skip("onnxruntime-int8 needs the extra onnx")
    status, said = certify(checkpoint, "--backend", "onnxruntime-int8", "--limit", "1")
    assert status == 0, said
    config = json.loads((checkpoint.parent / "run" / "run.json").read_text())["config"]
    assert config["model"]["calibration"] == "digits:train"
    assert config["classifier"]["backend"]["precision"] == "int8"
