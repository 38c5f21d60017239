"""What is kept on disk is found again, and never believed when damaged."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import Smoothed
from smoothcert.engine.backends import base, cache, export, installed
from smoothcert.noise import Gaussian

TASK = base.BackendTask(nn.Linear(2, 2), "fingerprint", torch.device("cpu"), (2,), 4)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "backends").iterdir())


def test_built_once_and_rebuilt_when_damaged(cache: Path) -> None:
    built = []

    def build() -> bytes:
        built.append(1)
        return b"artifact"

    for _ in range(2):
        assert store(TASK, build) == b"artifact"
    assert len(built) == 1
    (entry,) = entries(cache)
    for damage in (b"", b"short", entry.read_bytes()[:-1] + b"T", entry.read_bytes() + b"!"):
        entry.write_bytes(damage)
        assert store(TASK, build) == b"artifact"
    assert len(built) == 5
    other = store(TASK.with_rows(8), lambda: b"another")
    first, second = entries(cache)
    first.write_bytes(second.read_bytes())  # whole, but the answer to another question
    second.write_bytes(first.read_bytes())
    assert {store(TASK, build), other} == {b"artifact", b"another"}
    assert all(not path.name.startswith(".") for path in entries(cache))


def test_what_has_no_fingerprint_is_not_kept(cache: Path) -> None:
    unknown = base.BackendTask(nn.Linear(2, 2), None, torch.device("cpu"), (2,), 4)
    assert store(unknown, lambda: b"x") == b"x"
    assert not (cache / "backends").exists()


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "file"))
    assert store(TASK, lambda: b"x") == b"x"


def store(task: base.BackendTask, build: object) -> bytes:
    return cache.artifact(task, "kind", ("torch",), build)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime-int8", "openvino-int8"])
def test_the_same_digest_from_disk_and_built_again(
    name: str, net: nn.Module, calibration: Tensor, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed(name):
        pytest.skip(f"{name} needs its extra")

    def digest() -> str:
        g = Smoothed(net, 3, Gaussian(0.1), backend=name, calibration=calibration, input_shape=(1, 8, 8))
        return str(g.describe()["backend"]["digest"])

    once = digest()
    for entry in entries(cache):
        entry.write_bytes(entry.read_bytes()[:-9])
    assert digest() == once, "built again, the same to the last byte"
    with monkeypatch.context() as patch:
        patch.setattr(export, "_export", lambda _: pytest.fail("exported again"))
        assert digest() == once
