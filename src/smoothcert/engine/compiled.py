"""`Compiled`: a model as it is sampled, for inputs of one shape, and the words that identify it."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import generator, input_id
from smoothcert.engine.backends import AUTO, BACKENDS, BackendTask, Executable, default_rows, prepare
from smoothcert.engine.backends.auto import Say, fastest
from smoothcert.engine.classifier import describe, snapshot
from smoothcert.engine.model_errors import explained
from smoothcert.engine.model_watch import ModelWatch
from smoothcert.engine.pools.base import refuse_another_identity
from smoothcert.engine.pools.threads import default_workers
from smoothcert.models import Foreign, fingerprint
from smoothcert.models.ensembles import SideBySide
from smoothcert.noise import Noise

CALIBRATION_ROWS = 512
OWN_WEIGHTS = "own_weights"  # in a description: how each input's weights of an ensemble are found
SHAPES = 8  # of inputs, that a classifier is kept compiled for; those that were used last
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A private copy of a model, how it is run for inputs of one shape, and what identifies it. It never changes.

    Runners are made of it by the threads of a pool, and are no part of it. Pickled, it is compiled again where it
    arrives, and refused there if that gives another classifier (`WorkerRefusedError`).

    Args:
        task: the private copy, the shape of one input, and rows per call.
        backend: which runs it.
        executable: what the backend made of it.
        num_classes: of its scores.
        workers: how many run it at once.
        threads: of torch, in each worker: part of what decides the last bit of a score.
        description: what identifies it, as it stands in certificates.
    """

    task: BackendTask
    backend: str
    executable: Executable
    num_classes: int
    workers: int
    threads: int
    description: dict[str, Any]

    @property
    def model(self) -> Model:
        """The private copy, as torch runs it: what gradients go through."""
        return self.task.model

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.task.device

    @property
    def shape(self) -> Shape:
        """Of one input."""
        return self.task.shape

    @property
    def rows(self) -> int:
        """Of one call."""
        return self.executable.rows or self.task.rows

    @property
    def unit(self) -> int:
        """A call may be cut after every so many rows without changing a bit."""
        return self.executable.unit or self.rows

    @property
    def classifiers(self) -> int:
        """How many classifiers its scores are of, one after another."""
        return len(self.model.classifiers) if isinstance(self.model, SideBySide) else 1

    @property
    def padded(self) -> bool:
        """Whether calls of fewer rows are padded, so that the model always sees one of few shapes."""
        return self.device.type == "cpu" and isinstance(self.model, nn.Module) and self.executable.rows is None

    @property
    def note(self) -> str | None:
        """What the user should know, as a sentence: that it is not run as was asked."""
        return self.executable.note

    def __reduce__(self) -> Any:
        return _compiled_again, (
            self.task,
            self.backend,
            self.num_classes,
            self.workers,
            self.threads,
            self.description,
        )

    def __repr__(self) -> str:
        about = f"{self.description['kind']} for {self.shape} by {self.description['backend']['name']}"
        return f"Compiled({about}, {self.rows} rows per call, {self.workers} workers)"


def _compiled_again(
    task: BackendTask, backend: str, num_classes: int, workers: int, threads: int, wanted: dict[str, Any]
) -> Compiled:
    executable = prepare(backend, task)
    found = describe(task.model) | _circumstances(task, threads) | {"backend": executable.description}
    found |= {name: wanted[name] for name in (OWN_WEIGHTS,) if name in wanted}  # how pieces got theirs
    refuse_another_identity(wanted, found, "this worker")
    return Compiled(task, backend, executable, num_classes, workers, threads, wanted)


class ModelCompiler:
    """Compiles a model for shapes of inputs; once, as long as the model stays what it is.

    Who the model is is decided when it is compiled, of the private copy. Afterwards one cheap look per call tells
    whether the live model is still that one (`ModelWatch`); if not, it is compiled anew. What cannot be identified is
    compiled for every call.
    """

    def __init__(
        self,
        model: Model,
        *,
        num_classes: int,
        device: torch.device,
        noise: Noise,
        backend: str,
        rows: int | None,
        workers: int | None,
        calibration: Tensor | None,
        own_weights: dict[str, Any] | None = None,
    ) -> None:
        self._model, self._num_classes, self._device, self._noise = model, num_classes, device, noise
        self._backend, self._rows, self._workers, self._calibration = backend, rows, workers, calibration
        self._own_weights = {} if own_weights is None else {OWN_WEIGHTS: own_weights}
        self._lock = threading.RLock()
        self._kept: OrderedDict[Shape | None, Compiled] = OrderedDict()
        self._identity: object = None  # of the model that is kept
        self._watch: ModelWatch | None = None

    def compile(self, shape: Shape | None, say: Say = lambda _: None) -> Compiled:
        """For inputs of this shape; without one only where the shape decides nothing. `say` hears what is measured."""
        with self._lock:
            if not self._is_current():
                self._kept.clear()
                self._watch, self._identity = None, None
            if shape not in self._kept:
                self._kept[shape] = self._compile(shape, say)
            self._kept.move_to_end(shape)
            while len(self._kept) > SHAPES:
                self._kept.popitem(last=False)
            return self._kept[shape]

    def is_current(self, compiled: Compiled) -> bool:
        """Whether the live model is still the one that was compiled."""
        with self._lock:
            return self._is_current() and compiled in self._kept.values()

    def _is_current(self) -> bool:
        if not self._kept:
            return False
        one = next(iter(self._kept.values()))
        now = _circumstances(one.task, one.threads)
        if any(one.description[name] != value for name, value in now.items() if name != "batch"):
            return False
        if not isinstance(self._model, nn.Module):
            return bool(getattr(self._model, "fingerprint", None) == self._identity)
        return self._watch is not None and (self._watch.unchanged() or self._is_the_same(self._model))

    def _is_the_same(self, touched: nn.Module) -> bool:
        """Whether a model that was touched is still the same, back in training mode, say."""
        watch = ModelWatch(touched)
        same = fingerprint(touched) == self._identity
        self._watch = watch if same else None
        return same

    def _compile(self, shape: Shape | None, say: Say) -> Compiled:
        model = self._model
        if shape is None and self._needs_shape():
            raise InputError(
                "how this model is run depends on the shape of its inputs: give input_shape to Smoothed, or inputs: "
                "describe(x)"
            )
        # First the watch: what changes while the model is copied is seen as a change at the next call.
        watch = ModelWatch(model) if isinstance(model, nn.Module) and self._watch is None else self._watch
        private = snapshot(model, self._device)
        about = describe(private)
        identity = about["fingerprint"]
        if self._kept and identity != self._identity:  # it changed just now
            self._kept.clear()
        self._watch, self._identity = (watch if identity is not None else None), identity
        rows = self._rows or default_rows(private, self._device, shape or ())
        named = identity if isinstance(private, nn.Module) else None
        task = BackendTask(private, named, self._device, shape or (), rows)
        with explained(private, rows, shape or ()):
            task, backend, executable, workers = self._prepared(task, say)
        threads = threads_of(self._device)
        description = about | self._own_weights | _circumstances(task, threads) | {"backend": executable.description}
        return Compiled(task, backend, executable, self._num_classes, workers, threads, description)

    def _prepared(self, task: BackendTask, say: Say) -> tuple[BackendTask, str, Executable, int]:
        """In which shape, by which backend, as what, and by how many workers it is run."""
        backend, executable, rows = self._backend, None, task.rows
        workers = self._workers or default_workers(self._model, self._device)
        if backend == AUTO:
            # What has no fingerprint could be measured anew, and come out otherwise, at every call.
            backend = "eager"
            if task.fingerprint is not None and self._device.type == "cpu":
                chosen = fastest(task, rows=self._rows, workers=self._workers, cores=workers, say=say)
                task, executable, workers = chosen.task, chosen.executable, chosen.workers
                backend = str(executable.description["name"])
        elif BACKENDS[backend].int8:
            task = dataclasses.replace(task, calibration=self._noisy_calibration(rows))
        if executable is None:
            executable = prepare(backend, task)
        return task, backend, executable, workers

    def _noisy_calibration(self, rows: int) -> Tensor:
        """Noisy copies of calibration inputs, in whole batches, (k * rows, ...).

        A fixed seed: the classifier must not change with the seed of its certificates.
        """
        assert self._calibration is not None
        count = -(-CALIBRATION_ROWS // rows) * rows
        chosen = torch.linspace(0, len(self._calibration) - 1, count).round().long()
        x = self._calibration[chosen]
        stream = generator(0, input_id(x), "calibrate", 0)
        return self._noise.for_inputs(x).draw(x, stream)

    def _needs_shape(self) -> bool:
        """Whether how it is run depends on the shape: a backend, folded norms, or how many rows a function gets."""
        if not isinstance(self._model, nn.Module):
            return self._rows is None and self._device.type == "cpu"
        return self._backend != "eager" or any(isinstance(m, (*_NORMS, Foreign)) for m in self._model.modules())


def threads_of(device: torch.device) -> int:
    """Threads of torch in a worker: one on a CPU. Several that wait for each other are many times slower where the
    machine is busy, also for a function; whose calls may overlap is run faster by more workers.
    """
    return 1 if device.type == "cpu" else torch.get_num_threads()


def _circumstances(task: BackendTask, threads: int) -> dict[str, Any]:
    """What besides the model may change the last bit of a score."""
    on_cpu = task.device.type == "cpu"
    return {
        "device": task.device.type,
        "batch": task.rows,
        "threads": threads if on_cpu else None,
        "cpu": torch.backends.cpu.get_cpu_capability() if on_cpu else None,
        "deterministic": on_cpu or torch.are_deterministic_algorithms_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "torch": torch.__version__,
        "numpy": np.__version__,  # noise without a grid is computed by it
    }
