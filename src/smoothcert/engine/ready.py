"""From what the user asked for to a model that is ready to be sampled, and the words that identify it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.architectures import fingerprint
from smoothcert.architectures.modules import Model
from smoothcert.engine.backends import AUTO, BACKENDS, Job, Prepared, default_rows, prepare, same_votes
from smoothcert.engine.backends.auto import fastest
from smoothcert.engine.classifier import describe, snapshot
from smoothcert.engine.workers import default_workers
from smoothcert.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.streams import BLOCK, generator, input_id

CALIBRATION_ROWS = 512
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Key = tuple[str, tuple[int, ...] | None]


@dataclass(frozen=True)
class Ready:
    """A prepared model, the shape and the number of workers it is run with, and what identifies it."""

    job: Job
    prepared: Prepared
    description: dict[str, Any]

    @property
    def rows(self) -> int:
        """Of one call."""
        return self.prepared.rows or self.job.rows


@dataclass(frozen=True)
class Preparer:
    """Prepares a model as the user asked; once, as long as its fingerprint and the shape of inputs stay the same."""

    model: Model
    device: torch.device
    noise: Noise
    backend: str
    batch_size: int | None
    workers: int | None
    calibration: Tensor | None
    default_threads: int = field(default_factory=torch.get_num_threads)
    _made: dict[Key, Ready] = field(default_factory=dict)

    def ready(self, shape: tuple[int, ...] | None) -> Ready:
        """For inputs of this shape; without one only where the shape decides nothing."""
        module = isinstance(self.model, nn.Module)
        name = fingerprint(self.model) if isinstance(self.model, nn.Module) else None
        if name is not None and (name, shape) in self._made:
            return self._made[name, shape]
        if shape is None and module and (self.backend != "eager" or self._has_norms() or self._several_blocks()):
            raise InputError("describe() depends on the shape of the inputs: give input_shape, or call check(x) before")
        private = snapshot(self.model, self.device)
        about = describe(private)
        job, prepared = self._prepare(private, about["fingerprint"] if module else None, shape or ())
        ready = Ready(job, prepared, about | self._circumstances(job) | {"backend": prepared.description})
        if module and about["fingerprint"] is not None:
            for old in [key for key in self._made if key[0] != about["fingerprint"]]:
                del self._made[old]  # a model that is trained meanwhile must not pile up
            self._made[about["fingerprint"], shape] = ready
        return ready

    def threads(self, workers: int) -> int:
        """Intra-op threads of a worker: part of what decides the last bit of a score."""
        one_core = self.device.type == "cpu" and (isinstance(self.model, nn.Module) or workers > 1)
        return 1 if one_core else self.default_threads

    def _prepare(self, private: Model, identity: str | None, shape: tuple[int, ...]) -> tuple[Job, Prepared]:
        rows = self.batch_size or default_rows(private, self.device)
        workers = self.workers or default_workers(self.model, self.device)
        job = Job(private, identity, self.device, shape, rows, workers)
        backend, prepared = self.backend, None
        if backend == AUTO:
            # What has no fingerprint could be measured anew, and come out otherwise, at every call.
            backend = "eager"
            if identity is not None and self.device.type == "cpu":
                job, prepared = fastest(job, rows=self.batch_size, workers=self.workers)
                backend = str(prepared.description["name"])
        elif BACKENDS[backend].int8:
            job = dataclasses.replace(job, calibration=self._noisy_calibration(rows))
        if prepared is None:
            prepared = prepare(backend, job)
        shared = job.rows > BLOCK and self.device.type == "cpu" and isinstance(private, nn.Module)
        if shared and shape and not same_votes(prepared, job):
            job = job.with_rows(BLOCK)
            if job.calibration is not None:  # as for whoever asks for so many rows at once: the same classifier
                job = dataclasses.replace(job, calibration=self._noisy_calibration(BLOCK))
            prepared = prepare(backend, job)
        return job, prepared

    def _noisy_calibration(self, rows: int) -> Tensor:
        """Noisy copies of calibration inputs, in whole batches, (k * rows, ...).

        A fixed seed: the classifier must not change with the seed of its certificates.
        """
        assert self.calibration is not None
        count = -(-CALIBRATION_ROWS // rows) * rows
        chosen = torch.linspace(0, len(self.calibration) - 1, count).round().long()
        x = self.calibration[chosen]
        stream = generator(0, input_id(x), "calibrate", 0)
        return self.noise.for_inputs(x).draw(x, stream)

    def _circumstances(self, job: Job) -> dict[str, Any]:
        on_cpu = self.device.type == "cpu"
        return {
            "device": self.device.type,
            "batch": job.rows,
            "threads": self.threads(job.workers) if on_cpu else None,
            "cpu": torch.backends.cpu.get_cpu_capability() if on_cpu else None,
            "deterministic": on_cpu or torch.are_deterministic_algorithms_enabled(),
            "matmul": torch.get_float32_matmul_precision(),
            "torch": torch.__version__,
        }

    def _several_blocks(self) -> bool:
        """Whether a call may hold several blocks: whether it does depends on a probe."""
        return self.device.type == "cpu" and (self.batch_size or default_rows(self.model, self.device)) > BLOCK

    def _has_norms(self) -> bool:
        return isinstance(self.model, nn.Module) and any(isinstance(m, _NORMS) for m in self.model.modules())
