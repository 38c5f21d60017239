"""The contract of a backend: a job in; out come runners, and words that say which function they are."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.architectures.modules import Model
from smoothcert.engine.classifier import same_scores
from smoothcert.noise.streams import generator


class UnableError(Exception):
    """A backend cannot run this model; the text says why, as the middle of a sentence."""


@dataclass(frozen=True)
class Job:
    """What is to be run, and in which shape.

    Args:
        model: a private copy in evaluation mode, or a function.
        fingerprint: of the model; None if it cannot be identified, and then nothing of it is kept on disk.
        device: where it runs.
        shape: of one input.
        rows: of every call on a CPU. One shape always: kernels may sum in another order for another shape.
        workers: how many threads will run it at once.
        calibration: noisy inputs (k * rows, ...), for int8.
    """

    model: Model
    fingerprint: str | None
    device: torch.device
    shape: tuple[int, ...]
    rows: int
    workers: int
    calibration: Tensor | None = None

    def with_rows(self, rows: int) -> Job:
        """The same in another shape."""
        return dataclasses.replace(self, rows=rows)

    @property
    def precision(self) -> str:
        """The types of the model's numbers."""
        if not isinstance(self.model, nn.Module):
            return "unknown"
        return ",".join(sorted({str(p.dtype).removeprefix("torch.") for p in self.model.parameters()})) or "float32"

    def probe(self) -> Tensor:
        """Noisy inputs to compare two ways of running the model on, (rows, ...): always the same ones."""
        stream = generator(0, "", "probe", 0)
        x = torch.randint(0, 2, (self.rows, *self.shape), generator=stream).float()
        return x.add_(torch.randn(x.shape, generator=stream), alpha=0.25).to(self.device)


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to run.

    Args:
        new_runner: makes a runner (noisy inputs to scores) for the thread that calls it, and for no other; cheap.
        description: which function it is: name, precision, version of the runtime, digest of the artifact.
        note: what the user should know, as a sentence.
        rows: of a call, if other than the job's: the runner then cuts them itself.
    """

    new_runner: Callable[[], Model]
    description: dict[str, Any]
    note: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Padded:
    """Calls `run` with `rows` rows always: missing ones repeat the first, and what they get is dropped."""

    run: Model
    rows: int

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...); more rows are cut."""
        if len(x) > self.rows:
            return torch.cat(list(map(self, torch.split(x, self.rows))))
        missing = self.rows - len(x)
        if not missing:
            return self.run(x)
        scores = self.run(torch.cat([x, x[:1].expand(missing, *x.shape[1:])]))
        return scores[: len(x)] if isinstance(scores, Tensor) and len(scores) == self.rows else scores


@torch.no_grad()
def require_agreement(job: Job, runner: Model) -> None:
    """Raise UnableError unless a runner has the model's scores, within rounding, on noisy inputs."""
    x = job.probe()
    wanted, got = job.model(x.clone()), runner(x.clone())
    if wanted.shape != got.shape:
        raise UnableError(f"its scores have shape {tuple(got.shape)} there instead of {tuple(wanted.shape)}")
    if not same_scores(wanted, got):
        gap = float((wanted.double() - got.double()).abs().max())
        raise UnableError(f"its scores are {gap:.3g} apart there")


@torch.no_grad()
def vote_agreement(job: Job, runner: Model) -> float:
    """Share of the noisy calibration inputs that get the model's vote; below one half nothing is left of the model."""
    assert job.calibration is not None
    same = [job.model(x.clone()).argmax(1) == runner(x).argmax(1) for x in torch.split(job.calibration, job.rows)]
    share = float(torch.cat(same).double().mean())
    if share < 0.5:
        raise UnableError(f"it agrees there on {share:.0%} of noisy calibration inputs only")
    return round(share, 4)


def int8_sums() -> str:
    """How this processor adds products of eight bits: in 32 bits, or two at a time in 16 bits, which saturate.

    Without VNNI a pair of products, at most 2 * 255 * 128, is cut at 32767, and one quantised file is two functions.
    So weights are quantised to half the range: 2 * 255 * 64 fits, and the sums are the same everywhere. That rests on
    what two other packages do, so it is part of what identifies a classifier in int8 all the same.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "32 bits"  # Arm adds pairs of products in 32 bits, with or without dot-product instructions
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    exact = any(found.get(name, False) for name in ("avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"))
    return "32 bits" if exact or torch.cpu._is_vnni_supported() else "16 bits"


def digest(artifact: bytes) -> str:
    """Of what is run."""
    return hashlib.sha256(artifact).hexdigest()
