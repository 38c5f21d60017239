"""The README's own code: it runs as it stands, and the command line makes the same records of the same model."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import smoothcert as sc
from smoothcert.cli import app
from smoothcert.datasets import load

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(kind: str, start: str = "## Ten lines", end: str = "More of it:") -> list[str]:
    section = README[README.index(start) : README.index(end)]
    return [text for found, text in re.findall(r"^```(\w*)\n(.*?)^```$", section, re.S | re.M) if found == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the README was followed to the letter."""
    path = tmp_path_factory.mktemp("readme")
    ten, plugin, saved = blocks("python")
    assert len([line for line in ten.splitlines() if line and not line.startswith(("import", "from"))]) <= 10
    (path / "my_net.py").write_text(plugin)
    (path / "ten.py").write_text(f"{ten}\nimport my_net\n{saved}")
    done = subprocess.run([sys.executable, "ten.py"], cwd=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ACR" in done.stdout
    assert "297 of 297 records hold: level 1" in done.stdout
    assert "level 2 (326700 draws of 297 inputs made again)" in done.stdout
    return path


@pytest.mark.slow
def test_your_module_and_your_arrays_become_a_run_a_table_a_page_and_an_audit(folder: Path) -> None:
    run = sc.Run.open(folder / "runs" / "mine")
    right = [record for record in run.records() if record.correct and record.radius > 0]
    assert len(right) > 150, "it learnt to read digits"
    assert "data:image/png" in (folder / "mine.html").read_text()


@pytest.mark.slow
def test_the_command_line_makes_the_same_records(folder: Path) -> None:
    (command,) = blocks("")
    program, *arguments = shlex.split(command)
    assert program == "smoothcert"
    done = subprocess.run(
        [sys.executable, "-m", "smoothcert", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mine, again = (sc.Run.open(folder / "runs" / name) for name in ("mine", "again"))
    assert [(r.index, r.label) for r in mine.records()] == [(r.index, r.label) for r in again.records()]
    assert [c.to_json() for c in mine.certificates()] == [c.to_json() for c in again.certificates()]


@pytest.mark.slow
def test_your_model_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = README[README.index("## Your model") : README.index("## What is in it")]
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.S | re.M)
    (code,), (commands,) = ([text for kind, text in found if kind == wanted] for wanted in ("python", ""))
    (tmp_path / "my_models.py").write_text(code)
    torch.manual_seed(0)
    torch.save(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).state_dict(), tmp_path / "weights.pth")
    spec = sc.architectures.Architecture("cifar-resnet110", 10, (3, 32, 32))
    weights = sc.architectures.build(spec, seed=0).state_dict()
    torch.save({"state_dict": {f"1.{name}": value for name, value in weights.items()}}, tmp_path / "checkpoint.pth.tar")
    for line in commands.splitlines():
        words = shlex.split(line.partition("#")[0])
        done = CliRunner().invoke(app, words[1:])  # in this process: torch is there already
        assert (words[0], done.exit_code) == ("smoothcert", 0), done.output
    module, onnx = (sc.Run.open(tmp_path / "runs" / name) for name in ("module", "onnx"))
    # One linear layer: where two scores are equal but for rounding, and only there, the runtimes vote otherwise.
    moved = [
        abs(a.votes[k] - b.votes[k])
        for a, b in zip(module.certificates(), onnx.certificates(), strict=True)
        for k in range(10)
    ]
    assert max(moved) <= 2
    assert sc.load_model(tmp_path / "net.safetensors").architecture.mean == (0.4914, 0.4822, 0.4465)


def run_python(folder: Path, code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_folder_of_images_is_certified_and_answered(folder: Path) -> None:
    make, _ = blocks("python", "## Your data", "## Your model")
    run_python(folder, make)
    (commands,) = blocks("", "## Your data", "## Your model")
    for command in commands.strip().splitlines():
        program, *arguments = shlex.split(command)
        assert program == "smoothcert"
        done = subprocess.run(
            [sys.executable, "-m", "smoothcert", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    run = sc.Run.open(folder / "runs" / "photos")
    assert run.config.data.preprocessing == {"resize": "8x8", "filter": "bilinear"}
    assert len(run.records()) == 40
    assert sum(record.correct and record.radius > 0 for record in run.records()) > 10
    lines = (folder / "answers.csv").read_text().splitlines()
    assert lines[0].startswith("input,class,label,radius")
    assert len(lines) == 1 + len(list((folder / "photos" / "3").iterdir())) + 1


@pytest.mark.slow
def test_a_forest_of_scikit_learn_is_certified(folder: Path) -> None:
    _, forest = blocks("python", "## Your data", "## Your model")
    lines = run_python(folder, forest).splitlines()
    assert any("l2 radius" in line for line in lines)
    assert lines[-1].startswith("No perturbation below the radius changes the answer")


def test_a_router_chooses_the_noise(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python", "## A noise for each input", "## Fewer draws")
    torch.manual_seed(0)
    h, a, b = (torch.nn.Linear(4, classes) for classes in (2, 10, 10))
    exec(code, {"sc": sc, "h": h, "a": a, "b": b, "x": torch.full((1, 4), 9.0)})
    said = capsys.readouterr().out
    assert "answered with sigma 0." in said
    assert "; the choice holds within 0." in said or "; the choice holds within 1." in said


@pytest.mark.slow
def test_a_server_is_asked_stopped_and_audited(tmp_path: Path) -> None:
    (commands,) = blocks("", "## Serve it", "## Fewer draws")
    serve, ask, reveal = (shlex.split(line.partition(" #")[0]) for line in commands.strip().splitlines())
    Image.fromarray(load("mnist500", "test").inputs[0, 0]).save(tmp_path / "digit.png")
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothcert", *serve[1:], "--port", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = next(line.split()[3] for line in process.stdout if " answers at " in line)
    url = ask[-1].replace("http://127.0.0.1:8000/", address)
    found = httpx.post(url, content=(tmp_path / ask[-2].removeprefix("@")).read_bytes(), timeout=60).json()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert (found["label"], found["radius"]) == (7, 0.5)
    done = subprocess.run(
        [sys.executable, "-m", "smoothcert", *reveal[1:]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"1 answer under the key {found['seed']['hash']}")
