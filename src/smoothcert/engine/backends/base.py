"""The contract of a backend: a model and a shape in; out come runners, and words that say which function they are."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.model import Model
from smoothcert.core.randomness import generator
from smoothcert.core.registry import Registry
from smoothcert.engine.classifier import same_scores
from smoothcert.models import precision_of


class UnableError(Exception):
    """A backend cannot run this model; the text says why, as the middle of a sentence."""


@dataclass(frozen=True)
class BackendTask:
    """What is to be run, and in which shape.

    Args:
        model: a private copy in evaluation mode, or a function.
        fingerprint: of the model; None if it cannot be identified, and then nothing of it is kept on disk.
        device: where it runs.
        shape: of one input.
        rows: of every call on a CPU. One shape always: kernels may sum in another order for another shape.
        calibration: noisy inputs (k * rows, ...), for int8.
    """

    model: Model
    fingerprint: str | None
    device: torch.device
    shape: tuple[int, ...]
    rows: int
    calibration: Tensor | None = None

    def with_rows(self, rows: int) -> BackendTask:
        """The same in another shape."""
        return dataclasses.replace(self, rows=rows)

    @property
    def precision(self) -> str:
        """The types of the model's numbers."""
        if not isinstance(self.model, nn.Module):
            return "unknown"
        return precision_of(self.model) or "float32"

    def probe(self) -> Tensor:
        """Noisy inputs to compare two ways of running the model on, (rows, ...): always the same ones."""
        stream = generator(0, "", "probe", 0)
        x = torch.randint(0, 2, (self.rows, *self.shape), generator=stream).float()
        return x.add_(torch.randn(x.shape, generator=stream), alpha=0.25).to(self.device)


@dataclass(frozen=True)
class Executable:
    """A model as one backend runs it.

    Args:
        new_runner: makes a runner (noisy inputs to scores). It is called by the thread that will use the runner and
            drop it: behind a runner there may be a native network whose parts belong to the threads that used it.
        description: which function it is: name, precision, version of the runtime, digest of the artifact.
        note: what the user should know, as a sentence.
        rows: of a call, if other than the task's: the runner then cuts them itself.
        sizes: how many other numbers of rows it may be asked to run in (`in_calls_of`), each with a network of its own.
        unit: the runner makes passes of so many rows, from the first row of a call on, and full calls have a multiple
            of them; so a call may be cut between passes without changing a bit. None: a call may not be cut.
    """

    new_runner: Callable[[], Model]
    description: dict[str, Any]
    note: str | None = None
    rows: int | None = None
    sizes: int = 4
    unit: int | None = None


@dataclass(frozen=True)
class Backend:
    """How to prepare a task, and what must be there."""

    prepare: Callable[[BackendTask], Executable]
    packages: tuple[str, ...] = ()
    extra: str = ""  # of pyproject, that brings the packages
    int8: bool = False


BACKENDS: Registry[Backend] = Registry("backend")


def backend(
    name: str, *, packages: tuple[str, ...] = (), extra: str = "", int8: bool = False
) -> Callable[[Callable[[BackendTask], Executable]], Callable[[BackendTask], Executable]]:
    """Make a function from a task to an executable a backend (decorator).

    Args:
        name: as of --backend.
        packages: that must be installed.
        extra: of smoothcert, that brings them.
        int8: whether it needs calibration inputs, and gives a classifier that is noticeably another one.
    """

    def add(prepare: Callable[[BackendTask], Executable]) -> Callable[[BackendTask], Executable]:
        BACKENDS.add(Backend(prepare, packages, extra, int8), name)
        return prepare

    return add


@dataclass(frozen=True)
class Padded:
    """Calls `run` with `rows` rows always: missing ones repeat the first, and what they get is dropped.

    `resize` makes the same network for calls of another number of rows; None: it runs in one shape only.
    """

    run: Model
    rows: int
    resize: Callable[[int], Model] | None = None
    _resized: dict[int, Padded] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...); more rows are cut."""
        if len(x) > self.rows:
            return torch.cat(list(map(self, torch.split(x, self.rows))))
        missing = self.rows - len(x)
        if not missing:
            return self.run(x)
        scores = self.run(torch.cat([x, x[:1].expand(missing, *x.shape[1:])]))
        return scores[: len(x)] if isinstance(scores, Tensor) and len(scores) == self.rows else scores

    def in_calls_of(self, rows: int) -> Padded | None:
        """The same network in calls of `rows` rows, made once; None if it runs in one shape only."""
        if rows == self.rows or self.resize is None:
            return self if rows == self.rows else None
        if rows not in self._resized:
            self._resized[rows] = Padded(self.resize(rows), rows)
        return self._resized[rows]


def in_calls_of(runner: Model, rows: int) -> Model | None:
    """A runner in calls of at most `rows` rows; None if it runs in one shape only. A function takes what it gets."""
    sized = getattr(runner, "in_calls_of", None)
    found: Model | None = runner if sized is None else sized(rows)
    return found


def rows_are_independent(run: Model, x: Tensor, *, padded: bool) -> bool:
    """Does a row get the same scores, to the last bit, wherever in a call it stands, and whoever stands beside it?

    Only then may draws of several inputs share a call: else votes would depend on what else is certified. The order of
    additions in a kernel depends on shapes and places alone: where it differs, it shows in nearly every score, so the
    rows of x, (rows of a call, ...), tell. What is not padded to one shape is run in several.
    """
    order = torch.randperm(len(x), generator=generator(0, "", "order", 0)).to(x.device)
    sizes = {len(x) // 3 + 1, *(() if padded else (1, 2, 5, 16, len(x) // 2))}
    try:
        scores = run(x.clone())
        return torch.equal(run(x[order]), scores[order]) and all(
            torch.equal(run(x[order[:size]]), scores[order[:size]]) for size in sizes if size <= len(x)
        )
    except Exception:  # whatever a model raises on inputs that are not its own: then nothing is known
        return False


@torch.no_grad()
def require_agreement(task: BackendTask, runner: Model) -> None:
    """Raise UnableError unless a runner has the model's scores, within rounding, on noisy inputs."""
    x = task.probe()
    wanted, got = task.model(x.clone()), runner(x.clone())
    if wanted.shape != got.shape:
        raise UnableError(f"its scores have shape {tuple(got.shape)} there instead of {tuple(wanted.shape)}")
    if not same_scores(wanted, got):
        gap = float((wanted.double() - got.double()).abs().max())
        raise UnableError(f"its scores are {gap:.3g} apart there")


@torch.no_grad()
def vote_agreement(task: BackendTask, runner: Model) -> float:
    """Share of the noisy calibration inputs that get the model's vote; below one half nothing is left of the model."""
    assert task.calibration is not None
    same = [task.model(x.clone()).argmax(1) == runner(x).argmax(1) for x in torch.split(task.calibration, task.rows)]
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
