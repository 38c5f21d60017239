"""Trains a small network with batch-norm on digits; run by `conftest.start`, which fills in what is in capitals.

STATE and MODEL: files. KILL: (what, n): end by SIGKILL after n steps of this process, or at the n-th write of a file to
the disk ("write": before it has its name; "rename": after). GROUP: (rank, size, file to meet at). DS2: whether inputs
have strengths of the noise of their own. CARRIED: whether they are attacked, from where the last epoch left them.
"""

import json
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn

from smoothcert import datasets, training
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import Augment, train
from smoothcert.training.objectives import Carried, Gaussian, SmoothAdv

STATE: Path | None = globals()["STATE"]
MODEL: Path = globals()["MODEL"]
KILL: tuple[str, int] | None = globals()["KILL"]
GROUP: tuple[int, int, Path] | None = globals()["GROUP"]
DS2: bool = globals().get("DS2", False)
CARRIED: bool = globals().get("CARRIED", False)


def kill_at(name: str, count: int) -> None:
    """The process ends at the count-th call of this function of `os`."""
    original, calls = getattr(os, name), 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(os, name, counted)


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    layers[0].unused = nn.Parameter(torch.ones(3))  # has no gradient, and must not decay in several processes alone
    return nn.Sequential(*layers)


torch.set_num_threads(1)
steps = 0


def on_step(_done: int, _total: int) -> None:
    global steps  # noqa: PLW0603
    steps += 1
    if KILL and KILL[0] == "step" and steps == KILL[1]:
        os.kill(os.getpid(), signal.SIGKILL)


if KILL and KILL[0] != "step":
    # Two flushes belong to a file: of its contents, and of the folder after it got its name.
    kill_at("fsync" if KILL[0] == "write" else "replace", 2 * KILL[1] - 1 if KILL[0] == "write" else KILL[1])
if GROUP:
    rank, size, meeting = GROUP
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
data = datasets.load("digits", "train")
x, y = data.tensors(range(650)), torch.from_numpy(data.labels[:650].copy())
model = net()
noise = GaussianNoise(0.3)
objective = SmoothAdv(noise, Carried(0.2), draws=1) if CARRIED else Gaussian(noise)
history = train(
    model, (x, y), objective, epochs=3, batch_size=8, chunk=3, seed=1, lr=0.05,
    augment=Augment(crop=0 if CARRIED else 1), validation=(x[:100], y[:100]), state=STATE, save_every=0.0,
    on_step=on_step, ds2=training.DS2(start=1, lr=0.01) if DS2 else None,
)  # fmt: skip
epochs = [asdict(replace(epoch, seconds=0.0)) for epoch in history]
if not GROUP or GROUP[0] == 0:
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, MODEL, {"history": json.dumps(epochs)})
if GROUP:
    dist.destroy_process_group()
