"""`Smoothed`: any classifier, made provably robust by noise. The class that users hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.certify import Certificate, Conversation, Fixed, Predict, Prediction, Procedure, Scope
from smoothcert.certify.certificate import Answered
from smoothcert.engine.classifier import Model, check_fixed, describe, device_of, evaluating
from smoothcert.engine.sampler import Sampler, Talk, default_workers
from smoothcert.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.streams import BLOCK, generator, input_id

Result = TypeVar("Result", bound=Answered)
Inputs = Tensor | np.ndarray[Any, Any]


class Smoothed:
    """The smoothed classifier g(x) = the class that f answers most often on noisy copies of x (Cohen et al. 2019).

    Args:
        model: f, any callable from a float tensor (B, ...) to scores (B, num_classes). Noise is added to raw inputs,
            so normalisation belongs inside f. A module is run in evaluation mode, which is restored after; a function
            must be fixed by itself.
        num_classes: number of classes C.
        noise: what is added, and so in which norm the certificates speak.
        seed: certificates are a function of (seed, input, procedure, model): the same again, always.
        batch_size: rows per model call, whole blocks of 128 from there on. Default: 128 on a CPU, where the model then
            always sees the same shape and votes are the same to the last one; 1024 elsewhere.
        device: where to run; a module is moved there. Default: where it is.
        workers: threads with one core each. Default: all cores for a module on the CPU, else 1.
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
        for name, value in (("batch_size", batch_size), ("workers", workers)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self.model, self.num_classes, self.noise, self.seed = model, num_classes, noise, seed
        self.device = device_of(model) if device is None else torch.device(device)
        if isinstance(model, nn.Module):
            # The layout of the weights changes no value, and convolutions on a CPU run 1.5 to 2 times faster with it.
            model.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        rows = batch_size or (BLOCK if self.device.type == "cpu" else 1024)
        self.input_range, self.input_shape = input_range, input_shape
        self._sampler = Sampler(
            model=model,
            num_classes=num_classes,
            seed=seed,
            device=self.device,
            blocks_per_batch=max(1, rows // BLOCK),
            rows_per_call=max(1, rows // BLOCK) * BLOCK if rows >= BLOCK else rows,
            workers=workers or default_workers(model, self.device),
        )
        self._checked = False

    def certify(self, x: Inputs, procedure: Procedure | None = None) -> list[Certificate]:
        """A certificate per input: x is (B, ...) or one input. Default procedure: `Fixed()`, Cohen's."""
        return [answer for _, answer in sorted(self.certifying(x, procedure), key=lambda pair: pair[0])]

    def predict(self, x: Inputs, procedure: Predict | None = None) -> list[Prediction]:
        """The smoothed classifier's answer per input, or an abstention."""
        procedure = procedure or Predict()
        answers = self._run(self._batch(x), None, lambda _: procedure.predict(), Prediction)
        return [answer for _, answer in sorted(answers, key=lambda pair: pair[0])]

    def certifying(
        self,
        x: Inputs,
        procedure: Procedure | None = None,
        *,
        noises: Sequence[Noise] | None = None,
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Certificate]]:
        """Like `certify`, but yields (row, certificate) as soon as each is there; `on_draws` hears of progress.

        `noises` gives each input its own noise. The certificates then have the scope "this input's own classifier":
        the smoothed classifier is another one at every input, and without a memory nothing is claimed about neighbours.
        """
        procedure = procedure or Fixed()
        batch = self._batch(x)
        if noises is not None and len(noises) != len(batch):
            raise InputError(f"noises must be one per input, got {len(noises)} for {len(batch)} inputs")
        scope = Scope.FIXED if noises is None else Scope.OWN
        for row, certificate in self._run(batch, noises, procedure.certify, Certificate, on_draws):
            yield row, dataclasses.replace(certificate, scope=scope)

    def describe(self) -> dict[str, Any]:
        """What identifies the classifier that is sampled: weights, kind, dtype, device and batch shape."""
        rows = self._sampler.rows_per_call
        return describe(self.model) | {"device": self.device.type, "batch": rows, "torch": torch.__version__}

    def _run(
        self,
        batch: Tensor,
        noises: Sequence[Noise] | None,
        conversation: Callable[[Noise], Conversation[Result]],
        kind: type[Result],
        on_draws: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, Result]]:
        bound = [noise.for_inputs(batch) for noise in (noises or [self.noise])]
        classifier = self.describe()

        def talks() -> Iterator[Talk[Result]]:
            for row, x in enumerate(batch):
                noise = bound[row if noises else 0]
                yield Talk(row, x.to(self.device), noise, input_id(x), conversation(noise))

        with evaluating(self.model):
            self._check_model(batch[0].to(self.device), bound[0])
            for talk, answer in self._sampler.run(talks(), on_draws):
                yield (
                    talk.key,
                    dataclasses.replace(
                        answer,
                        noise=talk.noise.describe(),
                        classifier=classifier,
                        seed=self.seed,
                        input_id=talk.input_id,
                    ),
                )

    @torch.inference_mode()
    def _check_model(self, x: Tensor, noise: Noise) -> None:
        if self._checked:
            return
        rows = min(BLOCK, self._sampler.rows_per_call)
        if rows > 1:
            stream = generator(self.seed, input_id(x), "check", 0, self.device)
            check_fixed(self.model, noise.draw(x.expand(rows, *x.shape), stream), self.num_classes)
        self._checked = True

    def _batch(self, x: Inputs) -> Tensor:
        """Inputs as float32 (B, ...), refused where they cannot be what was meant."""
        batch = torch.as_tensor(x).detach()
        if not batch.is_floating_point():
            raise InputError(f"inputs must be floating point, got {batch.dtype}; divide 8-bit images by 255")
        one = batch.dim() in (1, 3) if self.input_shape is None else tuple(batch.shape) == self.input_shape
        batch = (batch[None] if one else batch).float()
        if self.input_shape is not None and tuple(batch.shape[1:]) != self.input_shape:
            raise InputError(f"inputs must have shape {self.input_shape} each, got {tuple(batch.shape[1:])}")
        if batch.dim() < 2 or not batch.numel():
            raise InputError(
                f"inputs must be a batch (B, ...) or one input with at least one number, got {tuple(batch.shape)}"
            )
        if not bool(torch.isfinite(batch).all()):
            raise InputError("inputs must be finite, got NaN or infinite values; clean the data first")
        if self.input_range is not None:
            low, high = float(batch.min()), float(batch.max())
            if low < self.input_range[0] or high > self.input_range[1]:
                raise InputError(
                    f"inputs must lie in {list(self.input_range)}, got values from {low:.4g} to {high:.4g}"
                )
        return batch
