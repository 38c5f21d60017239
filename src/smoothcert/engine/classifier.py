"""What may be smoothed: a module, a function of tensors, or a classifier of arrays behind an adapter."""

from __future__ import annotations

import copy
import hashlib
import pickle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.models import fingerprint


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
        with torch.no_grad():  # else copies of TorchScript remember what they are copies of
            private = copy.deepcopy(model)
    except Exception as error:
        raise InputError(f"model cannot be copied ({error}); wrap it in a function of tensors that is fixed") from error
    for parameter in private.parameters():  # one by one: TorchScript does not know `private.requires_grad_`
        parameter.requires_grad_(False)
    private.to(device).eval()
    if any(module.training for module in private.modules()):
        raise InputError("model stays in training mode after eval(): a module overrides train(); set it to evaluation")
    return private


def describe(model: Model) -> dict[str, Any]:
    """What identifies the classifier in a certificate. A bare function has no fingerprint, and it says so."""
    if isinstance(model, nn.Module):
        dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
        return {"kind": type(model).__name__, "fingerprint": fingerprint(model), "dtype": ",".join(dtypes)}
    kind = getattr(model, "__qualname__", type(model).__name__)
    return {"kind": kind, "fingerprint": getattr(model, "fingerprint", None)}


@torch.inference_mode()
def check_fixed(model: Model, batch: Tensor, rows_per_call: int, num_classes: int) -> None:
    """Refuse a model whose answer is not a fixed function of one input, or not (batch, num_classes) finite numbers.

    The batch is run again, and again in smaller parts, and in the company of strangers: dropout left on, and whatever
    else looks at the other rows, change the scores. The rows are copies of one input, so their mean is that input
    almost without noise: a classifier that saw it would be certified at will.
    """

    def run(rows: Tensor, size: int) -> Tensor:
        parts = torch.split(rows.clone(), size)  # a clone, because a model may work in place
        return torch.cat([score(model, part, num_classes) for part in parts])

    size = min(rows_per_call, len(batch))
    once = run(batch, size)
    if not bool(torch.isfinite(once).all()):
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    _require_same(once, run(batch, size), "when run again")
    _require_same(once, run(batch, max(1, size // 2)), "when run again in smaller batches")
    low, high = batch.min(), batch.max()
    for stranger in (low - (high - low), high + (high - low), None):
        mixed = batch.clone()
        mixed[1::2] = -3 * batch[1::2].flip(0) if stranger is None else stranger
        found = run(mixed.flip(0), size).flip(0)  # at other places, too
        _require_same(once[::2], found[::2], "in the company of other inputs")


def _require_same(once: Tensor, again: Tensor, when: str) -> None:
    """Refuse scores that differ by more than rounding."""
    if not same_scores(once, again):
        gap = float((once.double() - again.double()).abs().max())
        raise InputError(
            f"model is not a fixed function: the same inputs got scores {gap:.3g} apart {when}; "
            "call model.eval(), or make it free of dropout and batch statistics"
        )


def same_scores(once: Tensor, again: Tensor) -> bool:
    """Whether scores (B, C) are equal but for rounding: to a thousandth of what tells the first two classes apart.

    Medians, because a class may be masked with a huge number, and because scores may be of any size.
    """
    a, b = once.double(), again.double()
    top = a.topk(2, dim=1).values
    margin, size = (top[:, 0] - top[:, 1]).median(), a.abs().median()
    allowed = 1e-3 * margin + 2.0**-16 * size + 2.0**-20 * a.abs()
    return bool(((a - b).abs() <= allowed).all())  # not if one is not a number


def score(model: Model, batch: Tensor, num_classes: int) -> Tensor:
    """The model's scores, (B, C); another shape is refused."""
    scores = model(batch)
    wanted = (len(batch), num_classes)
    if not isinstance(scores, Tensor) or tuple(scores.shape) != wanted:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(f"model must return scores of shape (batch, num_classes) = {wanted}, got {got}")
    if scores.dtype == torch.bool or scores.is_complex():
        kind = "truth values" if scores.dtype == torch.bool else "complex numbers"
        raise InputError(f"model must return real numbers as scores, got {kind}; return scores.float()")
    return scores
