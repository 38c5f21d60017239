"""The training loop: the only one. SGD on an objective under noise; interrupted at any moment, it goes on as if not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from smoothcert.training.augment import Augment
from smoothcert.training.ds2 import DS2
from smoothcert.training.objectives import Objective
from smoothcert.training.schedules import OneCycle, Schedule
from smoothcert.training.session import Session
from smoothcert.training.settings import Settings
from smoothcert.training.state import Epoch
from smoothcert.training.validation import Data


def train(
    model: nn.Module,
    data: Data,
    objective: Objective,
    *,
    epochs: int,
    lr: float = 0.1,
    momentum: float = 0.9,
    nesterov: bool = True,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    chunk: int | None = None,
    schedule: Schedule | None = None,
    augment: Augment | None = None,
    mixed_precision: bool = True,
    seed: int = 0,
    ds2: DS2 | None = None,
    validation: Data | None = None,
    state: Path | None = None,
    save_every: float = 120.0,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
    on_step: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Epoch]:
    """Train `model` in place on data = (x (N, ...), y (N,)); evaluation mode when it ends. Gives what each epoch gave.

    The result is a function of the arguments: the order of the data, augmentation, noise and what the model draws by
    itself (dropout) follow from (seed, epoch, step, chunk). Inside a group of torch.distributed the chunks of every
    batch are shared out among the processes, and the result is the same within rounding, whatever their number.

    Args:
        model: where its parameters are, there it is trained. All of it is put into training mode, also layers that the
            caller had in evaluation mode; to keep a batch-norm frozen, make it a module that is so in either mode.
        data: raw inputs, float32 (noise is added to them), and labels, int64 from 0.
        objective: what is minimised.
        epochs: passes over the data.
        lr: the largest learning rate.
        momentum: of SGD.
        nesterov: momentum in Nesterov's form.
        weight_decay: of SGD, on all parameters.
        batch_size: inputs per step of the optimiser; a single last one joins the step before it.
        chunk: inputs per forward and backward pass, whose gradients add up to that of the batch. It bounds the memory
            of a step and is part of the result: a chunk has noise and batch-norm statistics of its own. Default: all.
        schedule: of the learning rate; a `OneCycle` by default.
        augment: crops and flips of the inputs, before the noise.
        mixed_precision: bfloat16 where the device is a GPU that has it; never on a CPU.
        seed: of all randomness here. The first weights are the caller's.
        ds2: gives each input a strength of the noise of its own, that grows or shrinks while training goes on.
        validation: inputs and labels whose accuracy under noise is told after every epoch; the same noise every time.
        state: a file to keep the state in, after every epoch (at most every 10 seconds) and every `save_every` seconds.
            If it is there, training goes on from it and ends with the same weights, bit for bit on the same CPU, as if
            never interrupted.
        save_every: seconds.
        on_epoch: called after every epoch, and for those that `state` has.
        on_step: called with steps done and steps in total.
    """
    settings = Settings(
        epochs, lr, momentum, nesterov, weight_decay, batch_size, chunk,
        schedule or OneCycle(), augment or Augment(), mixed_precision, seed, ds2,
    )  # fmt: skip
    session = Session(model, data, objective, settings, validation, state)
    return run(session, save_every=save_every, on_epoch=on_epoch, on_step=on_step)


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
    session.model.eval()
    return session.position.history
