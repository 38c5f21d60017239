"""Trainings side by side: what a process is refused is the sentence of one, and plug-ins are there, too."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from smoothcert import models
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import load_plugin
from smoothcert.workflows import seeds
from smoothcert.workflows.recipes import adapted
from smoothcert.workflows.seeds import train_seeds
from smoothcert.workflows.training_events import End, Training, check_end

RECIPE = "mnist-lenet-gaussian-0.50-fast"
SMALL = ["architecture=lenet"]  # digits are too small for the network of MNIST
NETWORK = """
import torch
from smoothcert.models import register

@register("plugged")
def plugged(*, num_classes, input_shape):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, num_classes))
"""


def test_a_disk_error_of_a_process_is_the_sentence_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    out, said = tmp_path / "file" / "sub", list[End]()
    with pytest.raises(InputError) as alone:
        train_seeds(adapted(RECIPE, SMALL), data="digits", out=out)
    monkeypatch.setattr(seeds.signal, "signal", lambda *_: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    training = Training(adapted(RECIPE, SMALL), "digits", 0, out)
    seeds._work(training, SimpleNamespace(put=said.append), os.getppid(), ())
    sentence = f"--out {out} cannot be used (Not a directory); give a folder that can be written to"
    assert [end.error for end in said] == [str(alone.value)] == [sentence]


def test_a_process_that_was_killed_is_said() -> None:
    with pytest.raises(InputError, match=r"a training process was killed .* run the same command again"):
        check_end(None)
    with pytest.raises(InputError, match="too small"):
        check_end(End("seed 0", False, "too small"))


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten")
def test_processes_know_the_plugins_of_their_parent(tmp_path: Path) -> None:
    """Trainings of a network from outside the package, in processes that start from nothing."""
    (tmp_path / "network.py").write_text(NETWORK)
    load_plugin(tmp_path / "network.py")
    heard: list[tuple[str, str]] = []

    class Ear(seeds.Observer):
        def started(self, task: str, **_: Any) -> None:
            heard.append(("started", task))

        def finished(self, task: str, *, note: str) -> None:
            heard.append(("finished", task))
            assert note.startswith("epoch 1/1, loss")

    recipe = adapted(RECIPE, ["architecture=plugged"], epochs=1)
    trained = train_seeds(recipe, data="digits", out=tmp_path / "out", seeds=[3, 5], jobs=2, observer=Ear())
    assert sorted(heard) == [(when, f"seed {seed}") for when in ("finished", "started") for seed in (3, 5)]
    assert [one.new for one in trained] == [True, True]
    assert [models.load(one.model).details["seed"] for one in trained] == [3, 5]
    log = (tmp_path / "out" / "seed3" / "progress.log").read_text().splitlines()
    assert "seed 3: started" in log[0]
    assert "seed 3: done in" in log[-1]
