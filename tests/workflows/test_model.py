"""`smoothcert model`: what a model is, the raw-pixel contract, and one file out of any."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.models.normalisation import USUAL
from smoothcert.noise import Gaussian
from smoothcert.workflows import model as workflow
from smoothcert.workflows.pixels import AS_IT_IS, check_pixels


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


class BySums(nn.Module):
    """Knows exactly which numbers it was trained on: right where the means of an image are those, else always 0."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean * (channels if len(mean) == 1 else 1)))
        self.register_buffer("std", torch.tensor(std * (channels if len(std) == 1 else 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = x.mean(dim=(2, 3)) * self.std + self.mean  # raw means, if x was normalised so
        label = (levels.mean(dim=1) * 10).floor().clamp(0, 9)  # raw images of class c have the level (c + .5) / 10
        return -(label[:, None] - torch.arange(10.0)).abs()


def images(channels: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(200) % 10
    levels = ((labels + 0.5) / 10 * 255).round().astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (200, channels, 8, 8)).copy(), labels


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", [AS_IT_IS, *USUAL])
def test_the_normalisation_of_training_is_found(name: str, channels: int) -> None:
    if name != AS_IT_IS and not USUAL[name].fits(channels):
        return
    mean, std = ((0.0,), (1.0,)) if name == AS_IT_IS else (USUAL[name].mean, USUAL[name].std)
    data = sc.datasets.from_arrays(*images(channels), split="test")
    found = check_pixels(BySums(mean, std, channels), data, 10, None)
    nearly = {"cifar10", "imagenet"}  # which are nearly the same, on images that are nearly grey
    assert found.fits == name or {found.fits, name} == nearly
    assert (name == AS_IT_IS) == ("it takes them as they are" in found.sentence)


def test_a_model_of_other_data_is_said_to_be_one() -> None:
    torch.manual_seed(0)
    data = sc.datasets.load("digits")
    found = check_pixels(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), data, 10, None)
    assert (found.fits is None) == ("is it a model of these data?" in found.sentence)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that reads digits under noise, behind a normalisation that it does not have inside."""
    folder = tmp_path_factory.mktemp("digits")
    spec = Architecture("lenet", 10, (1, 8, 8))
    data = sc.datasets.load("digits", "train")
    x, y = data.tensors(range(len(data))), torch.from_numpy(data.labels.copy())
    model = build(spec, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # which on a busy machine would wait for each other longer than it takes
    for _ in range(60):
        rows = torch.randint(0, len(x), (64,))
        noisy = x[rows] + 0.25 * torch.randn(64, 1, 8, 8)
        loss = nn.functional.cross_entropy(model((noisy - 0.5) / 0.1666667), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    save(folder / "net.safetensors", model.eval(), spec, {})
    torch.save({"arch": "x", "state_dict": nn.DataParallel(model).state_dict()}, folder / "checkpoint.pth.tar")
    return folder


def test_import_puts_the_normalisation_inside_and_says_that_it_fits(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.safetensors"
    words = ["--arch", "lenet", "--shape", "1,8,8", "--sigma", 0.25, "--normalize", "0.5,0.1666667", "--out", out]
    done = call("model", "import", digits / "checkpoint.pth.tar", *words, "--data", "digits")
    assert done.exit_code == 0, done.output
    assert "raw pixels: it takes them as they are" in done.stdout
    assert "trained under: gaussian noise, sigma 0.25" in done.stdout
    found = sc.load_model(out)
    assert found.details["noise"] == Gaussian(0.25).describe()
    data = sc.datasets.load("digits")
    x = data.tensors(range(64))
    plain = sc.load_model(digits / "net.safetensors").model
    with torch.no_grad():
        torch.testing.assert_close(found.model(x), plain((x - 0.5) / 0.1666667))
    done = call("certify", "--model", out, "--data", "digits", "--n", 128, "--limit", 1, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output


def test_import_rounds_weights_to_half_the_file(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "half.safetensors"
    done = call("model", "import", digits / "net.safetensors", "--half", "--out", out)
    assert done.exit_code == 0, done.output
    assert out.stat().st_size < 0.6 * (digits / "net.safetensors").stat().st_size
    found = sc.load_model(out)
    assert found.fingerprint in done.stdout
    assert found.fingerprint != sc.load_model(digits / "net.safetensors").fingerprint
    done = call("model", "import", digits / "net.safetensors", "--half", "--out", tmp_path / "half.onnx")
    assert done.exit_code != 0
    assert "--half is for weights in a .safetensors file; leave it out" in done.stderr
    assert not (tmp_path / "half.onnx").exists()


def test_info_tells_all_that_is_known(digits: Path) -> None:
    done = call("model", "info", digits / "net.safetensors", "--json")
    about = json.loads(done.stdout)
    count = sum(p.numel() for p in sc.load_model(digits / "net.safetensors").model.parameters())
    assert (about["kind"], about["parameters"], about["num_classes"]) == ("lenet", count, 10)
    flops = 2 * (64 * 25 * 32 + 16 * 25 * 32 * 64 + 64 * 4 * 1024 + 1024 * 10)  # multiplications, and additions
    assert about["flops"] == flops
    assert (about["input_shape"], about["precision"], about["noise"]) == ([1, 8, 8], "float32", None)
    assert "input: 1 x 8 x 8" in call("model", "info", digits / "net.safetensors").stdout


def test_export_gives_the_same_votes_and_may_be_normalised(digits: Path, tmp_path: Path) -> None:
    done = call("model", "export", digits / "net.safetensors", "--out", tmp_path / "net.onnx")
    assert done.exit_code == 0, done.output
    assert "of 256 votes on noisy inputs are the same by ONNX Runtime" in done.stdout
    done = call(
        "model",
        "import",
        tmp_path / "net.onnx",
        "--normalize",
        "0.5,0.1666667",
        "--out",
        tmp_path / "raw.onnx",
        "--data",
        "digits",
    )
    assert done.exit_code == 0, done.output
    x = torch.rand(9, 1, 8, 8)
    before, after = (sc.load_model(tmp_path / name).model for name in ("net.onnx", "raw.onnx"))
    torch.testing.assert_close(after(x), before((x - 0.5) / 0.1666667), atol=1e-4, rtol=1e-4)
    about = workflow.info(tmp_path / "raw.onnx")
    assert (about.kind, about.input_shape, about.num_classes) == ("onnx", (1, 8, 8), 10)
    assert about.parameters is not None
    assert about.parameters > 50_000
    half = call("model", "export", tmp_path / "net.onnx", "--out", tmp_path / "x.pt")
    assert (half.exit_code, "--out must end in .onnx" in half.stderr) == (2, True)
