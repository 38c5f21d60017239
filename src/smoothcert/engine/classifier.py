"""What may be smoothed: a module, a function of tensors, or a classifier of arrays behind an adapter."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.architectures import fingerprint
from smoothcert.errors import InputError

Model = Callable[[Tensor], Tensor]


class SklearnClassifier:
    """A scikit-learn-like classifier as a function of tensors: inputs are flattened to (B, d), answers are (B, C).

    Takes `predict_proba` if there is one, else `decision_function`, else `predict`. Class i is `classes_[i]`.
    """

    def __init__(self, classifier: Any) -> None:
        if not hasattr(classifier, "classes_"):
            raise InputError(f"classifier {type(classifier).__name__} has no classes_: fit it first")
        self.classifier = classifier
        self.num_classes = len(classifier.classes_)
        self.fingerprint = hashlib.sha256(pickle.dumps(classifier)).hexdigest()

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of inputs (B, ...)."""
        rows = x.detach().cpu().numpy().reshape(len(x), -1)
        return torch.from_numpy(np.ascontiguousarray(self._scores(rows))).to(x.device)

    def _scores(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if hasattr(self.classifier, "predict_proba"):
            return np.asarray(self.classifier.predict_proba(rows))
        if hasattr(self.classifier, "decision_function"):
            margins = np.asarray(self.classifier.decision_function(rows))
            return np.stack([-margins, margins], axis=1) if margins.ndim == 1 else margins
        answers = np.asarray(self.classifier.predict(rows))[:, None]
        return np.asarray(answers == self.classifier.classes_, dtype=np.float32)  # (B, C) one-hot


def describe(model: Model) -> dict[str, Any]:
    """What identifies the classifier in a certificate. A bare function has no fingerprint, and it says so."""
    if isinstance(model, nn.Module):
        dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
        return {"kind": type(model).__name__, "fingerprint": fingerprint(model), "dtype": ",".join(dtypes)}
    kind = getattr(model, "__qualname__", type(model).__name__)
    return {"kind": kind, "fingerprint": getattr(model, "fingerprint", None)}


def device_of(model: Model) -> torch.device:
    """Where the model lives; the CPU for a function."""
    if isinstance(model, nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            return tensor.device
    return torch.device("cpu")


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode inside, every submodule's own mode restored after: smoothing is about a fixed function."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def check_fixed(model: Model, batch: Tensor, num_classes: int) -> None:
    """Refuse a model whose answer is not a fixed function of one input, or not (batch, num_classes) finite numbers.

    The batch is run whole, then its first half: dropout left on, or batch statistics in use, change the scores.
    """
    whole, half = score(model, batch, num_classes), score(model, batch[: len(batch) // 2], num_classes)
    if not bool(torch.isfinite(whole).all()):
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    gap = (whole[: len(half)].double() - half.double()).abs().max()
    if bool(gap > 1e-3 * (1 + whole.double().abs().max())):
        raise InputError(
            f"model is not a fixed function: the same inputs got scores {float(gap):.3g} apart when run again in a "
            "smaller batch; call model.eval(), or make it free of dropout and batch statistics"
        )


def score(model: Model, batch: Tensor, num_classes: int) -> Tensor:
    """The model's scores, (B, C); another shape is refused."""
    scores = model(batch)
    if not isinstance(scores, Tensor) or tuple(scores.shape) != (len(batch), num_classes):
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(
            f"model must return scores of shape (batch, num_classes) = {(len(batch), num_classes)}, got {got}"
        )
    return scores
