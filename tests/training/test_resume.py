"""Killed at any moment, a training goes on and ends with the same weights, bit for bit."""

import contextlib
import random
import shutil
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.files import DRAFT
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import train
from smoothcert.training.objectives import Gaussian

KILLED = -signal.SIGKILL
NOISY = Gaussian(GaussianNoise(0.5))
Start = Callable[..., BaseProcess]


def history(path: Path) -> str:
    with safe_open(path, "pt") as file:
        return str(file.metadata()["history"])


def test_killed_anywhere_it_ends_with_the_same_bits(start: Start, tmp_path: Path) -> None:
    whole = start(STATE=None, MODEL=tmp_path / "whole.safetensors", KILL=None, GROUP=None)
    chance = random.Random(0)
    # 82 steps per epoch, a state after the first of a process, about every 50 steps and after every epoch.
    kills = [("step", 1), ("write", 1), ("step", chance.randint(51, 81)), ("write", 2), ("rename", 1)]
    kills += [("step", chance.randint(1, 80)), ("write", 1), ("step", 49)]
    folder = tmp_path / "work"
    folder.mkdir()
    for kill in kills:
        process = start(STATE=folder / "state.safetensors", MODEL=tmp_path / "cut.safetensors", KILL=kill, GROUP=None)
        process.join()
        assert process.exitcode == KILLED, kill
        left = [file.name for file in folder.iterdir() if file.name.startswith(DRAFT)]
        assert len(left) == (kill[0] != "step"), "a kill leaves its own half-written file behind, and no older one"
    last = start(STATE=folder / "state.safetensors", MODEL=tmp_path / "cut.safetensors", KILL=None, GROUP=None)
    for process in (last, whole):
        process.join()
        assert process.exitcode == 0
    one, other = load_file(tmp_path / "whole.safetensors"), load_file(tmp_path / "cut.safetensors")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert history(tmp_path / "whole.safetensors") == history(tmp_path / "cut.safetensors")


def test_two_processes_train_what_one_does(start: Start, tmp_path: Path) -> None:
    """Also with batch-norm, a last batch that is too small for both, and a state that either number goes on from."""
    alone = start(STATE=None, MODEL=tmp_path / "one.safetensors", KILL=None, GROUP=None)
    state = tmp_path / "state.safetensors"
    cut = start(STATE=state, MODEL=tmp_path / "cut.safetensors", KILL=("step", 60), GROUP=None)
    cut.join()
    assert cut.exitcode == KILLED
    pair = [
        start(STATE=state, MODEL=tmp_path / "two.safetensors", KILL=None, GROUP=(rank, 2, tmp_path / "meet"))
        for rank in range(2)
    ]
    for process in (alone, *pair):
        process.join()
        assert process.exitcode == 0
    one, two = load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "two.safetensors")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-5, atol=1e-5)  # numbers of batches are equal


def small() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(2, 2)


def go(state: Path, net: nn.Module, epochs: int = 2, lr: float = 0.1, sigma: float = 0.5) -> None:
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    train(net, (x, torch.arange(20) % 2), Gaussian(GaussianNoise(sigma)), epochs=epochs, lr=lr, state=state)


def test_a_damaged_state_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    go(state, small())
    whole = state.read_bytes()
    chance = random.Random(0)
    flipped = [chance.randrange(8, len(whole)) for _ in range(40)] + [len(whole) - 1]
    damages = [whole[:cut] for cut in (0, 5, 100, len(whole) - 1)]
    damages += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in flipped]
    for damage in damages:
        state.write_bytes(damage)
        net = small()
        with pytest.raises(InputError, match=r"damaged|use the version that wrote it|of another"):
            go(state, net)
        assert torch.equal(net.weight, small().weight)  # type: ignore[arg-type]
    state.write_bytes(whole)
    go(state, small())


def test_the_state_of_another_training_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    go(state, small())
    before = state.read_bytes()
    for other in ({"epochs": 3}, {"lr": 0.2}, {"sigma": 0.25}):
        with pytest.raises(InputError, match="is of another training"):
            go(state, small(), **other)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is of another model"):
        go(state, nn.Sequential(nn.Linear(2, 2)))
    assert state.read_bytes() == before


def test_dropout_is_resumed_and_repeated_too(tmp_path: Path) -> None:
    """Whatever torch's own generator has drawn before; and it is not drawn from."""
    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    state = tmp_path / "state.safetensors"

    def trained(chance: int, stop: int | None = None, **options: Any) -> dict[str, torch.Tensor]:
        net = nn.Sequential(small(), nn.Dropout(0.5), nn.RReLU())
        torch.manual_seed(chance)
        before = torch.get_rng_state()

        def on_step(done: int, _total: int) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            train(net, (x, torch.arange(40) % 2), NOISY, epochs=2, batch_size=8, chunk=4, on_step=on_step, **options)
        assert torch.equal(torch.get_rng_state(), before)
        return net.state_dict()

    with torch.random.fork_rng():
        whole = trained(1)
        assert torch.equal(trained(2)["0.weight"], whole["0.weight"])
        assert not torch.equal(trained(1, seed=1)["0.weight"], whole["0.weight"])
        trained(3, 8, state=state, save_every=0.0)
        assert state.exists()
        assert torch.equal(trained(4, state=state)["0.weight"], whole["0.weight"])


def test_a_finished_state_gives_the_same_model_at_once(tmp_path: Path) -> None:
    first, again, told = small(), small(), []
    go(tmp_path / "state.safetensors", first)
    shutil.copy(tmp_path / "state.safetensors", tmp_path / "copy.safetensors")
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    train(
        again, (x, torch.arange(20) % 2), Gaussian(GaussianNoise(0.5)), epochs=2,
        state=tmp_path / "copy.safetensors", on_epoch=told.append,
    )  # fmt: skip
    assert torch.equal(first.weight, again.weight)  # type: ignore[arg-type]
    assert [epoch.number for epoch in told] == [1, 2], "epochs of the earlier attempt are told, too"
