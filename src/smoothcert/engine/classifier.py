"""What may be smoothed: a module, a function of tensors, or a classifier of arrays behind an adapter."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.architectures import fingerprint
from smoothcert.errors import InputError

Model = Callable[[Tensor], Tensor]


class SklearnClassifier:
    """A scikit-learn-like classifier as a function of tensors: inputs are flattened to (B, d), answers are (B, C).

    Takes `predict_proba` if there is one, else `predict`. Class i is `classes_[i]`.
    """

    def __init__(self, classifier: Any) -> None:
        if not hasattr(classifier, "classes_"):
            raise InputError(f"classifier {type(classifier).__name__} has no classes_: fit it first")
        self.classifier = classifier

    @property
    def num_classes(self) -> int:
        """How many classes it was fitted on."""
        return len(self.classifier.classes_)

    @property
    def fingerprint(self) -> str:
        """Of the classifier as it is now: fitting it again changes it."""
        return hashlib.sha256(pickle.dumps(self.classifier)).hexdigest()

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of inputs (B, ...)."""
        rows = x.detach().cpu().numpy().reshape(len(x), -1)
        if hasattr(self.classifier, "predict_proba"):
            scores = np.asarray(self.classifier.predict_proba(rows))
        else:
            answers = np.asarray(self.classifier.predict(rows))[:, None]
            scores = np.asarray(answers == self.classifier.classes_, dtype=np.float32)  # (B, C) one-hot
        return torch.from_numpy(np.ascontiguousarray(scores)).to(x.device)


def snapshot(model: Model, device: torch.device) -> Model:
    """A private copy of a module, in evaluation mode: what is sampled cannot change while it is being sampled.

    The caller may train, move or change the original meanwhile, and nothing of it is touched. A function stays itself.
    """
    if not isinstance(model, nn.Module):
        return model
    try:
        private = copy.deepcopy(model)
    except Exception as error:
        raise InputError(f"model cannot be copied ({error}); wrap it in a function of tensors that is fixed") from error
    return private.requires_grad_(False).to(device).eval()


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


@torch.inference_mode()
def check_fixed(model: Model, batch: Tensor, rows_per_call: int, num_classes: int) -> None:
    """Refuse a model whose answer is not a fixed function of one input, or not (batch, num_classes) finite numbers.

    The batch is run twice, cut in two ways: dropout left on, or batch statistics in use, change the scores.
    """

    def run(rows: int) -> Tensor:
        parts = torch.split(batch.clone(), rows)  # a clone, because a model may work in place
        return torch.cat([score(model, part, num_classes) for part in parts])

    rows = min(rows_per_call, len(batch))
    once, again = run(rows), run(max(1, rows // 2))
    if not bool(torch.isfinite(once).all()):
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    gap = (once.double() - again.double()).abs()
    if bool((gap > 1e-3 * (1 + once.double().abs())).any()):
        raise InputError(
            f"model is not a fixed function: the same inputs got scores {float(gap.max()):.3g} apart when run again in "
            "smaller batches; call model.eval(), or make it free of dropout and batch statistics"
        )


def score(model: Model, batch: Tensor, num_classes: int) -> Tensor:
    """The model's scores, (B, C); another shape is refused."""
    scores = model(batch)
    wanted = (len(batch), num_classes)
    if not isinstance(scores, Tensor) or tuple(scores.shape) != wanted:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(f"model must return scores of shape (batch, num_classes) = {wanted}, got {got}")
    return scores
