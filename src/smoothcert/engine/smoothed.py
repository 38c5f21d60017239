"""`Smoothed`: any classifier, made provably robust by noise. The class that users hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from smoothcert.architectures.modules import Model, device_of
from smoothcert.certify import Certificate, Conversation, Fixed, Predict, Prediction, Procedure, Scope
from smoothcert.certify.certificate import Answered
from smoothcert.engine.backends import check_backend
from smoothcert.engine.backends.apart import Asking
from smoothcert.engine.classifier import check_fixed
from smoothcert.engine.ready import Preparer, Ready
from smoothcert.engine.remembering import Remembers, inserted, predicted
from smoothcert.engine.sampler import Sampler, Talk
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.engine.workers import Workers
from smoothcert.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.ascent import plain
from smoothcert.noise.streams import BLOCK, generator, input_id

Result = TypeVar("Result", bound=Answered)
Inputs = Tensor | np.ndarray[Any, Any]


class Smoothed:
    """The smoothed classifier g(x) = the class that f answers most often on noisy copies of x (Cohen et al. 2019).

    Args:
        model: f, any callable from a float tensor (B, ...) to scores (B, num_classes). Noise is added to raw inputs,
            so normalisation belongs inside f. What is sampled is a private copy of a module, in evaluation mode: the
            original is not touched, and may change meanwhile. A function must be fixed by itself.
        num_classes: number of classes C.
        noise: what is added, and so in which norm the certificates speak.
        seed: certificates are a function of (seed, input, procedure, model): the same again, always. alpha holds for a
            procedure, n and radius that were settled before any draw of this seed was seen; to try again with other
            settings take another seed, and pay for the best of k tries.
        batch_size: rows per model call, whole blocks of 128 from there on. Default: 128 on a CPU, or 384 if the model
            has large linear layers and a block gets the same scores wherever it stands, so that votes are the same to
            the last one; 1024 elsewhere. A module on a CPU always sees this shape.
        device: where to run. Default: where the module is.
        workers: threads with one core, and one copy of the module, each. Default: all cores for a module on the CPU,
            else 1. With more, a function must allow to be called from several threads.
        backend: how a module is run: "eager" (torch, batch-norm folded), "compile", "onnxruntime", "openvino", or, on a
            CPU that has the instructions several times faster, "onnxruntime-int8" and "openvino-int8". Every backend is
            a classifier of its own, and certificates name it: predict with the one that was certified. "auto" measures
            those in float32; int8 is noticeably another classifier and never chosen for you.
        calibration: training inputs (N, ...), for int8: their noisy copies tell the ranges of the numbers.
        search: how the strength of the noise is found for each input, such as `Bracket()`, from that of `noise`.
            Certificates then have the scope "this input's own classifier". Default: one strength for all.
        memory: where certified regions are kept, a `Memory`. Certificates are inserted, in the order of the inputs, and
            have the scope "memory"; predictions inside a region are that region's. Default: none.
        input_range: inputs outside it are refused. Images: (0, 1).
        input_shape: shape of one input. Default: (d,) for vectors, (C, H, W) for images.
    """

    def __init__(
        self,
        model: Model,
        num_classes: int,
        noise: Noise,
        seed: int = 0,
        *,
        batch_size: int | None = None,
        device: torch.device | str | None = None,
        workers: int | None = None,
        backend: str = "eager",
        calibration: Inputs | None = None,
        search: SigmaSearch | None = None,
        memory: Remembers | None = None,
        input_range: tuple[float, float] | None = None,
        input_shape: tuple[int, ...] | None = None,
    ) -> None:
        if not callable(model):
            raise InputError(
                f"model must be callable, got {type(model).__name__}; wrap scikit-learn in SklearnClassifier"
            )
        if num_classes < 2:
            raise InputError(f"num_classes must be at least 2, got {num_classes}")
        if not isinstance(noise, Noise):
            raise InputError(f"noise must be a noise such as Gaussian(sigma=0.25), got {noise!r}")
        if search is not None:
            plain(noise)
        for name, value in (("batch_size", batch_size), ("workers", workers)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self._model, self._noise, self._num_classes, self._seed = model, noise, num_classes, seed
        self._device = device_of(model) if device is None else torch.device(device)
        self._search, self._memory = search, memory
        self._input_range, self._input_shape = input_range, input_shape
        self._shape: tuple[int, ...] | None = input_shape  # of the inputs seen last
        inputs = None if calibration is None else self._batch(calibration)
        check_backend(backend, model, self._device, inputs)
        rows = batch_size // BLOCK * BLOCK if batch_size and batch_size >= BLOCK else batch_size
        self._checked: Ready | None = None
        self._asked: tuple[int, ...] = ()
        self._preparer = Preparer(model, self._device, noise, backend, rows, workers, inputs)

    # Read-only: a certificate names the model, noise and seed that were sampled.

    @property
    def model(self) -> Model:
        """The base classifier f."""
        return self._model

    @property
    def noise(self) -> Noise:
        """What is added to inputs."""
        return self._noise

    @property
    def search(self) -> SigmaSearch | None:
        """How each input gets its own strength; None: all have that of the noise."""
        return self._search

    @property
    def memory(self) -> Remembers | None:
        """Through what it answers; None: by itself."""
        return self._memory

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._num_classes

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self._seed

    def certify(
        self, x: Inputs, procedure: Procedure | None = None, *, noises: Sequence[Noise] | None = None
    ) -> list[Certificate]:
        """A certificate per input: x is (B, ...) or one input. Default procedure: `Fixed()`, Cohen's.

        `noises`: as of `certifying`.
        """
        return [answer for _, answer in sorted(self.certifying(x, procedure, noises=noises), key=lambda pair: pair[0])]

    def predict(self, x: Inputs, procedure: Predict | None = None) -> list[Prediction]:
        """The smoothed classifier's answer per input, or an abstention; inside a region of the memory, the region's."""
        procedure = procedure or Predict()
        batch = self._batch(x)

        def draw(rows: list[int]) -> Iterator[tuple[int, Prediction]]:
            for row, answer in self._run(batch[rows], None, lambda _: procedure.predict()) if rows else ():
                yield rows[row], dataclasses.replace(answer, scope=self._scope(None))

        if self._memory is None:
            return [answer for _, answer in sorted(draw(list(range(len(batch)))), key=lambda pair: pair[0])]
        return predicted(self._memory, batch, procedure, draw, **self._about(batch))

    def certifying(
        self,
        x: Inputs,
        procedure: Procedure | None = None,
        *,
        noises: Sequence[Noise] | None = None,
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Certificate]]:
        """Like `certify`, but yields (row, certificate) as soon as each is there; `on_draws` hears of progress.

        `noises` gives each input its own noise, instead of the search. The certificates then have the scope "this
        input's own classifier": the smoothed classifier is another one at every input, and without a memory nothing is
        claimed about neighbours. With a memory certificates come in the order of the inputs.
        """
        procedure = procedure or Fixed()
        batch = self._batch(x)
        if noises is not None and len(noises) != len(batch):
            raise InputError(f"noises must be one per input, got {len(noises)} for {len(batch)} inputs")
        answers = self._run(batch, noises, procedure.certify, on_draws)
        scoped = ((row, dataclasses.replace(answer, scope=self._scope(noises))) for row, answer in answers)
        if self._memory is None:
            yield from scoped
            return
        about = self._about(batch)  # what the memory is not for is refused before anything is drawn
        self._memory.check_owner(about["classifier"], about["noise"], batch.shape[1:])
        yield from inserted(self._memory, batch, scoped)

    def noises(self, x: Inputs) -> list[Noise]:
        """The noise of each input: what the search finds, or that of all. A function of the seed, the input and f."""
        batch = self._batch(x)
        return list(self._noises(batch, self._ready(batch)))

    @property
    def asked(self) -> tuple[int, ...]:
        """Of an ensemble: how many noisy inputs each member was asked about, in all that was certified or predicted.

        Evaluations per draw are sum(asked) / max(asked); the share of draws on which the first k of `Consensus` agreed
        is 1 - asked[k] / asked[0]. Empty for other models.
        """
        return self._asked

    def describe(self) -> dict[str, Any]:
        """What identifies the classifier that is sampled: weights, kind, dtype, and how it is run."""
        return self._preparer.ready(self._shape).description

    def check(self, x: Inputs) -> None:
        """Refuse inputs or a model that cannot be certified, at the price of two blocks of draws of the first input."""
        batch = self._batch(x)
        self._check(self._ready(batch), batch[0], self._noise.for_inputs(batch))

    def prepared(self, x: Inputs) -> Ready:
        """The model as it is run for inputs like x: backend, batch, workers, and a note if it is not what was asked."""
        return self._ready(self._batch(x))

    def _scope(self, noises: Sequence[Noise] | None) -> Scope:
        return Scope.FIXED if noises is None and self._search is None else Scope.OWN

    def _about(self, batch: Tensor) -> dict[str, Any]:
        noise = self._noise.for_inputs(batch).describe()
        return {"classifier": self._ready(batch).description, "noise": noise, "seed": self._seed}

    def _ready(self, batch: Tensor) -> Ready:
        self._shape = tuple(batch.shape[1:])
        return self._preparer.ready(self._shape)

    def _check(self, ready: Ready, x: Tensor, noise: Noise) -> None:
        if ready is self._checked:  # the same private copy as the last time
            return
        stream = generator(self._seed, input_id(x), "check", 0, self._device)
        block = noise.draw(x.to(self._device).expand(BLOCK, *x.shape), stream)
        check_fixed(ready.prepared.new_runner(), block, ready.job.rows, self._num_classes)
        self._checked = ready

    def _run(
        self,
        batch: Tensor,
        noises: Sequence[Noise] | None,
        conversation: Callable[[Noise], Conversation[Result]],
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Result]]:
        ready = self._ready(batch)
        bound = [noise.for_inputs(batch[row : row + 1]) for row, noise in enumerate(noises or ())]
        self._check(ready, batch[0], bound[0] if bound else self._noise.for_inputs(batch))
        counts: list[list[int]] = []  # of the runners, which live and die in their own threads

        def new_runner() -> Model:
            runner = ready.prepared.new_runner()
            if isinstance(runner, Asking):
                counts.append(runner.asked)
            return runner

        sampler = Sampler(
            workers=self._workers(ready, new_runner),
            num_classes=self._num_classes,
            seed=self._seed,
            device=self._device,
            blocks_per_batch=max(1, ready.rows // BLOCK),
            rows_per_call=ready.rows,
        )

        def talks() -> Iterator[Talk[Result]]:
            for row, (x, found) in enumerate(zip(batch, bound or self._noises(batch, ready), strict=True)):
                noise = found.at(x)
                yield Talk(row, x.to(self._device), noise, input_id(x), conversation(noise))

        try:
            for talk, answer in sampler.run(talks(), on_draws):
                noise, name = talk.noise.describe(), talk.input_id
                filled = dataclasses.replace(
                    answer, noise=noise, classifier=ready.description, seed=self._seed, input_id=name
                )
                yield talk.key, filled
        finally:
            self._asked = tuple(map(sum, zip(*counts, *([self._asked] if self._asked else []), strict=True)))

    def _noises(self, batch: Tensor, ready: Ready) -> Iterable[Noise]:
        bound = self._noise.for_inputs(batch)
        if self._search is None:
            return [bound] * len(batch)
        where = (self._workers(ready, ready.prepared.new_runner), ready.job.model, self._device)
        return self._search.noises(*where, batch, bound, seed=self._seed)

    def _workers(self, ready: Ready, new_runner: Callable[[], Model]) -> Workers:
        return Workers(new_runner, ready.job.workers, self._preparer.threads(ready.job.workers))

    def _batch(self, x: Inputs) -> Tensor:
        """Inputs as float32 (B, ...), refused where they cannot be what was meant."""
        batch = torch.as_tensor(x).detach().clone()  # the caller may go on changing theirs
        if not batch.is_floating_point():
            raise InputError(f"inputs must be floating point, got {batch.dtype}; divide 8-bit images by 255")
        one = batch.dim() in (1, 3) if self._input_shape is None else tuple(batch.shape) == self._input_shape
        batch = (batch[None] if one else batch).float()
        if self._input_shape is not None and tuple(batch.shape[1:]) != self._input_shape:
            raise InputError(f"inputs must have shape {self._input_shape} each, got {tuple(batch.shape[1:])}")
        if batch.dim() < 2 or not batch.numel():
            raise InputError(
                f"inputs must be a batch (B, ...) or one input with at least one number, got {tuple(batch.shape)}"
            )
        if not bool(torch.isfinite(batch).all()):
            raise InputError("inputs must be finite, got NaN or infinite values; clean the data first")
        if self._input_range is not None:
            low, high = float(batch.min()), float(batch.max())
            if low < self._input_range[0] or high > self._input_range[1]:
                raise InputError(
                    f"inputs must lie in {list(self._input_range)}, got values from {low:.4g} to {high:.4g}"
                )
        return batch
