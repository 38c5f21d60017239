"""One training under way: its steps, what they gave, and where it stands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.freed_memory import keep_freed_memory
from smoothcert.core.model import evaluating
from smoothcert.core.randomness import generator
from smoothcert.training import optimizer as optimizers
from smoothcert.training.averaging import MovingAverage, averaged
from smoothcert.training.data import Data, TrainingData, check_label, training_data
from smoothcert.training.discard import Discard
from smoothcert.training.group import Group
from smoothcert.training.objectives import Objective
from smoothcert.training.of_inputs import OfInputs
from smoothcert.training.optimizer import OptimizerOf
from smoothcert.training.settings import Settings
from smoothcert.training.state import Epoch, Position, load_state, save_state
from smoothcert.training.statistics import RunningStatistics, sizes
from smoothcert.training.validation import noisy_accuracy

# At most so many steps, and about so many seconds, lie between looks at losses, weights and the clock: a look waits for
# the device. Where a step takes longer, every step is looked at.
LOOK_STEPS, LOOK_SECONDS = 50, 5.0
SHORT = 10.0  # seconds: an epoch that ends so soon after a saved state is not worth another one


class Session:
    """See `train`, which makes one and runs its epochs."""

    def __init__(
        self,
        model: nn.Module,
        data: Data | TrainingData,
        objective: Objective,
        settings: Settings,
        validation: Data | TrainingData | None,
        state: Path | None,
        optimizer: OptimizerOf | None = None,
    ) -> None:
        self.data = training_data(data)
        self.validation = None if validation is None else training_data(validation, "validation")
        if not isinstance(objective, Objective):
            raise InputError(f"objective must be one of smoothcert.training.objectives, got {objective!r}")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise InputError("model has no parameters that require a gradient: there is nothing to train")
        self.group = Group.current()
        self.model, self.objective, self.settings = model, objective, settings
        self.state = state
        self.steps = len(sizes(len(self.data), settings.batch_size))
        self.device = next(model.parameters()).device
        self.shared = settings.rows < settings.batch_size or self.group.size > 1
        processes, batch = self.group.size, settings.batch_size
        if processes > len(sizes(batch, settings.rows)):
            raise InputError(
                f"{processes} processes need a batch of at least so many chunks, but batch_size is {batch} and chunk "
                f"{settings.rows}; set chunk to {max(1, batch // processes)}"
            )
        if self.device.type == "cpu":
            keep_freed_memory()
        # The same weights in a layout with faster convolutions, also where inputs have one channel.
        for parameter in model.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.to(memory_format=torch.channels_last)
        self.optimizer = optimizers.made(optimizer or optimizers.sgd(settings, self.device), model)
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.average = None if settings.ema is None else MovingAverage(model, settings.ema)
        self.statistics = RunningStatistics(model)
        with self._chance(("inputs", 0)):  # data may be drawn as they are read
            self.of_inputs = OfInputs(objective, settings, self.data, self.device)
        self.position, self.saved = Position(), time.perf_counter()
        self.ahead = 1  # steps until the next look: the first step tells how long they take
        self.losses: list[tuple[int, int, dict[str, Tensor]]] = []  # of this process: step, inputs, terms
        self._optimizer_as_made = optimizers.describe(self.optimizer)
        if objective.classifies:
            self._check_labels()

    @cached_property
    def about(self) -> dict[str, Any]:
        """What a state file is of: another training never goes on from it."""
        return {
            "settings": self.settings.describe(),
            "objective": self.objective.describe(),
            "optimizer": self._optimizer_as_made,
            "data": self.data.identity,
        }

    def _check_labels(self) -> None:
        """Refuse labels that the model has no score for: it is asked once, and is as before afterwards."""
        with torch.no_grad(), evaluating(self.model), self._chance(("labels", 0)):
            x, _ = self.data.batch(torch.tensor([0]))
            shape = tuple(self.objective.scores(self.model, x.to(self.device)).shape)
        if len(shape) != 2 or shape[1] < 2:
            raise InputError(
                f"model must answer a score for each of two or more classes, (B, C), got {shape} for B = 1"
            )
        self.classes = shape[1]
        for name, data in {"data": self.data, "validation": self.validation}.items():
            if data is not None and data.largest_label is not None:
                check_label(name, data.largest_label, self.classes)

    def resume(self, on_epoch: Callable[[Epoch], None]) -> None:
        """Go on from the state file, if there is one; every process of a group reads it."""
        if self.state is not None:
            found = load_state(self.state, self.about, self.model, self.optimizer, self.of_inputs.kept, self.average)
            if len({(p.epoch, p.step) if p else None for p in self.group.gather(found)}) > 1:
                raise InputError(f"the processes see different files {self.state}; put it where all of them see it")
            self.position = found or self.position
        self.group.share([*self.model.parameters(), *self.model.buffers()])
        for epoch in self.position.history:
            on_epoch(epoch)

    def run_epoch(self, save_every: float, on_step: Callable[[int, int], None]) -> Epoch:
        """The rest of the epoch under way."""
        position, settings = self.position, self.settings
        order = torch.randperm(len(self.data), generator=generator(settings.seed, "train", "order", position.epoch))
        with averaged(self.model, self.average):
            say = partial(on_step, *position.progress(settings.epochs, self.steps))  # that it is at work
            order = order[self.of_inputs.left(position.epoch, self.group, self._answers, say)[order]]
        batches = torch.split(order, sizes(len(order), settings.batch_size))
        self.steps = len(batches)
        self.model.train()
        began, before = time.perf_counter(), position.seconds
        since, taken = began, 0  # the last look
        while position.step < self.steps:
            self._step(batches[position.step])
            position.step, taken = position.step + 1, taken + 1
            on_step(*position.progress(settings.epochs, self.steps))
            if taken >= self.ahead and position.step < self.steps:
                if self._look(since, taken) >= save_every:
                    position.seconds = before + time.perf_counter() - began
                    self._save()
                since, taken = time.perf_counter(), 0
        unsaved = self._look(since, taken)
        epoch = self._finish(len(order), before + time.perf_counter() - began)
        if unsaved >= min(save_every, SHORT) or epoch.number == epoch.epochs:
            self._save()
        return epoch

    def end(self) -> None:
        """Leave the model as it was trained: with the moving average, if there is one, and in evaluation mode."""
        if self.average is not None:
            self.model.load_state_dict(self.average.tensors)
        self.model.eval()

    def _answers(self, discard: Discard, rows: Tensor, number: int) -> Tensor:
        """How often the model answers inputs with their labels under noise, (B,)."""
        with (
            self._chance(("discard", number)),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.mixed_on(self.device)),
        ):
            stream = generator(self.settings.seed, "train", "discard", number, self.device)
            return discard.answers(self.objective, self.model, *self._batch(rows), stream)

    def _finish(self, inputs: int, seconds: float) -> Epoch:
        """Close the epoch: its means, and how good the model is under noise."""
        position, settings = self.position, self.settings
        accuracy = None
        if self.validation is not None and self.objective.classifies:
            noise, scores = self.objective.noise, self.objective.scores
            with averaged(self.model, self.average), self._chance(("validate", position.epoch)):
                accuracy = noisy_accuracy(self.model, self.validation, noise, seed=settings.seed, scores=scores)
        terms = {name: total / inputs for name, total in position.sums.items()}
        lr = float(self.optimizer.param_groups[0]["lr"])
        epoch = Epoch(position.epoch + 1, settings.epochs, sum(terms.values()), terms, accuracy, lr, seconds)
        self.position = Position(epoch=position.epoch + 1, steps=position.steps, history=[*position.history, epoch])
        return epoch

    def _step(self, rows: Tensor) -> None:
        """One step of the optimiser, on the inputs `rows`."""
        settings, position, group = self.settings, self.position, self.group
        now = position.epoch + position.step / self.steps
        moment = f"{position.epoch}/{position.step}"
        objective = self.objective.at(now)
        cuts = settings.augment.draw(len(rows), generator(settings.seed, "train", f"augment/{moment}", 0))
        split = sizes(len(rows), settings.rows)
        chunks = list(zip(torch.split(rows, split), torch.split(cuts, split), strict=True))
        self.optimizer.zero_grad(set_to_none=True)
        if self.shared:
            self.statistics.start()
        for number in range(group.rank, len(chunks), group.size):
            part, cut = chunks[number]
            if not self.shared:
                self._accumulate(objective, part, cut, (moment, number), 1.0)
                continue
            share = len(part) / len(rows)
            with self.statistics.chunk(share):
                self._accumulate(objective, part, cut, (moment, number), share)
        if self.shared:
            self._merge(rows)
        factor = settings.schedule.factor(now, settings.epochs)
        for parameters, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            parameters["lr"] = rate * factor
        self.optimizer.step()
        position.steps += 1
        if self.average is not None:
            self.average.update(self.model)

    def _accumulate(self, objective: Objective, rows: Tensor, cut: Tensor, when: tuple[str, int], share: float) -> None:
        """Add the gradient of one chunk, which is this share of its batch; `when` names its step and itself."""
        with self._chance(when):
            x, y = self._batch(rows)
            x = self.settings.augment.apply(x, cut)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.mixed_on(self.device)):
                strength = self.of_inputs.improved(objective, self.model, x, rows, when)
                noise = generator(self.settings.seed, "train", f"noise/{when[0]}", when[1], self.device)
                with self.of_inputs.carried(objective, rows) as here:
                    terms = here.terms(self.model, x, y, noise, strength)
                loss = torch.stack([term.float() for term in terms.values()]).sum()
            (loss * share).backward()  # type: ignore[no-untyped-call]
        self.losses.append((self.position.step, len(rows), {name: term.detach() for name, term in terms.items()}))

    def _batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self.data.batch(rows)
        if self.data.largest_label is None and self.objective.classifies:
            check_label("data", int(y.max()), self.classes)
        return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    @contextmanager
    def _chance(self, when: tuple[str, int]) -> Iterator[None]:
        """What the model draws by itself, as dropout does, follows from `when`; the caller's generators stay put."""
        seed, purpose, cuda = self.settings.seed, f"model/{when[0]}", self.device.type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if cuda else []):
            torch.set_rng_state(generator(seed, "train", purpose, when[1]).get_state())
            if cuda:
                torch.cuda.set_rng_state(
                    generator(seed, "train", purpose, when[1], self.device).get_state(), self.device
                )
            yield

    def _merge(self, rows: Tensor) -> None:
        """Gradients, statistics and what is kept of inputs: of the whole batch, from what the processes have of it."""
        if self.group.size > 1:
            parameters = [p for p in self.model.parameters() if p.requires_grad]
            # A process that had no chunk of a small last batch adds zeros; what no process used has no gradient.
            used = torch.tensor([float(p.grad is not None) for p in parameters], device=self.device)
            for parameter in parameters:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            gradients = [p.grad for p in parameters if p.grad is not None]
            last = len(sizes(len(rows), self.settings.rows)) - 1
            chunk = (torch.arange(len(rows), device=self.device) // self.settings.rows).clamp_max(last)
            kept = self.of_inputs.shares(rows, chunk % self.group.size == self.group.rank)
            self.group.add_up([*gradients, used, *self.statistics.sums, *kept])
            for parameter, count in zip(parameters, used.tolist(), strict=True):
                if not count:
                    parameter.grad = None
            self.of_inputs.keep(rows, kept)
        self.statistics.end()

    def _look(self, since: float, taken: int) -> float:
        """Add the terms of the steps `taken` to the sums; refuse what is not finite. Gives the seconds since a state.

        Terms are kept on the device until here, so that steps do not wait for numbers to be read. All processes look
        after the same steps: the pace of the slowest decides when next.
        """
        terms = [term.float() for _, _, chunk in self.losses for term in chunk.values()]
        values = iter(torch.stack(terms).tolist() if terms else [])
        mine = [(step, size, {name: next(values) for name in chunk}) for step, size, chunk in self.losses]
        self.losses.clear()
        now = time.perf_counter()
        everyone = self.group.gather((now - self.saved, (now - since) / max(1, taken), mine))
        # In the order of steps: what broke first is named, not what broke of it.
        for _, size, chunk in sorted((entry for *_, chunks in everyone for entry in chunks), key=itemgetter(0)):
            for name, value in chunk.items():
                if not math.isfinite(value):
                    raise InputError(self._diverged(f"the loss term {name!r} became {value}"))
                self.position.sums[name] = self.position.sums.get(name, 0.0) + size * value
        # No state and no model is ever made of weights that the last step broke.
        tensors = [*(p for p in self.model.parameters() if p.requires_grad), *self.statistics.buffers]
        if not bool(torch.stack([tensor.detach().isfinite().all() for tensor in tensors]).all()):
            raise InputError(self._diverged("the weights became infinite or nan"))
        pace = max(LOOK_SECONDS / LOOK_STEPS, *(pace for _, pace, _ in everyone))  # seconds per step
        self.ahead = max(1, int(LOOK_SECONDS / pace))
        return max(clock for clock, *_ in everyone)

    def _diverged(self, what: str) -> str:
        where, lr = self.position.epoch + 1, max(self.rates)
        return f"{what} in epoch {where}: training has diverged, lower lr (now {lr:g})"

    def _save(self) -> None:
        if self.state is not None and self.group.rank == 0:
            save_state(
                self.state, self.about, self.model, self.optimizer, self.position, self.of_inputs.kept, self.average
            )
        self.saved = time.perf_counter()
