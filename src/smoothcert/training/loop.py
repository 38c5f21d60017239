"""The training loop: the only one. Under noise, with any optimiser; interrupted, it goes on as if it had not been."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn
from torch.utils.data import DataLoader

from smoothcert.core.errors import InputError
from smoothcert.training.augment import Augment
from smoothcert.training.data import Data
from smoothcert.training.discard import Discard
from smoothcert.training.ds2 import DS2
from smoothcert.training.objectives import Objective
from smoothcert.training.optimizer import OptimizerOf
from smoothcert.training.schedules import OneCycle, Schedule
from smoothcert.training.session import Session
from smoothcert.training.settings import Settings
from smoothcert.training.state import Epoch

BATCH_SIZE = 128


def train(
    model: nn.Module,
    data: Data,
    objective: Objective,
    *,
    epochs: int,
    optimizer: OptimizerOf | None = None,
    lr: float | None = None,
    momentum: float | None = None,
    nesterov: bool | None = None,
    weight_decay: float | None = None,
    batch_size: int | None = None,
    chunk: int | None = None,
    schedule: Schedule | None = None,
    augment: Augment | None = None,
    mixed_precision: bool | None = None,
    seed: int = 0,
    ds2: DS2 | None = None,
    discard: Discard | None = None,
    ema: float | None = None,
    validation: Data | None = None,
    state: Path | None = None,
    save_every: float = 120.0,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_step: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Epoch]:
    """Train `model` in place on `data`; evaluation mode when it ends. Gives what each epoch gave.

    The result is a function of the arguments: the order of the data, augmentation, noise and what the model draws by
    itself (dropout) follow from (seed, epoch, step, chunk). Inside a group of torch.distributed the chunks of every
    batch are shared out among the processes, and the result is the same within rounding, whatever their number.

    Args:
        model: where its parameters are, there it is trained. All of it is put into training mode, also layers that the
            caller had in evaluation mode; to keep a batch-norm frozen, make it a module that is so in either mode.
        data: raw inputs, float32 (noise is added to them), and labels from 0: tensors or arrays (x, y), a data set of
            this package, or a data set or loader of torch. Of a loader its data set is taken, and its batch size if
            none is given; order and batches follow from the seed.
        objective: what is minimised.
        epochs: passes over the data.
        optimizer: makes any optimiser of torch of the parameters, as in
            `lambda parameters: torch.optim.AdamW(parameters, lr=3e-4)`; its learning rates are the largest ones.
            Default: SGD, of which
        lr: is the largest learning rate (0.1),
        momentum: its momentum (0.9),
        nesterov: whether that is Nesterov's (yes), and
        weight_decay: is on all parameters (1e-4).
        batch_size: inputs per step of the optimiser, 128 by default; a single last one joins the step before it.
        chunk: inputs per forward and backward pass, whose gradients add up to that of the batch. It bounds the memory
            of a step and is part of the result: a chunk has noise and batch-norm statistics of its own. Default: all.
        schedule: of the learning rate; a `OneCycle` by default.
        augment: crops, flips and bends of the inputs, before the noise.
        mixed_precision: bfloat16 in matrix products and convolutions; weights stay float32. Default: on a GPU that has
            it. On a CPU only if asked for: it is about twice as fast with the instructions for it (avx512_bf16, amx),
            and slower without.
        seed: of all randomness here. The first weights are the caller's.
        ds2: gives each input a strength of the noise of its own, that grows or shrinks while training goes on.
        discard: leaves out, from some epoch on, inputs that the model gets wrong under noise.
        ema: the decay of a moving average of the weights, such as 0.999, which the model has in the end.
        validation: data whose accuracy under noise is told after every epoch; the same noise every time.
        state: a file to keep the state in, after every epoch (at most every 10 seconds) and every `save_every` seconds.
            If it is there, training goes on from it and ends with the same weights, bit for bit on the same CPU, as if
            never interrupted.
        save_every: seconds.
        on_epoch: called after every epoch, and for those that `state` has. Default: each is a line on standard error.
        on_step: called with steps done and steps in total.
    """
    of_sgd = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
    given = {name: value for name, value in of_sgd.items() if value is not None}
    if optimizer is not None and given:
        raise InputError(f"{', '.join(given)} of SGD and an optimizer say two things; give them to the optimizer")
    settings = Settings(
        epochs,
        batch_size=batch_size or (data.batch_size if isinstance(data, DataLoader) else None) or BATCH_SIZE,
        chunk=chunk,
        schedule=schedule or OneCycle(),
        augment=augment or Augment(),
        mixed_precision=mixed_precision,
        seed=seed,
        ds2=ds2,
        discard=discard,
        ema=ema,
        **given,  # type: ignore[arg-type]
    )
    session = Session(model, data, objective, settings, validation, state, optimizer)
    return run(session, save_every=save_every, on_epoch=on_epoch or _say, on_step=on_step)


def run(
    session: Session,
    *,
    save_every: float,
    on_epoch: Callable[[Epoch], None],
    on_step: Callable[[int, int], None],
) -> list[Epoch]:
    """All epochs of a session, or those that are left; see `train`."""
    session.resume(on_epoch)
    while session.position.epoch < session.settings.epochs:
        on_epoch(session.run_epoch(save_every, on_step))
    session.end()
    return session.position.history


def _say(epoch: Epoch) -> None:
    print(epoch, file=sys.stderr, flush=True)
