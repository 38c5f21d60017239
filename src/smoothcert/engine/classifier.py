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
from smoothcert.models import OwnPrecision, fingerprint, precision_of


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
        kind = type(model.module if isinstance(model, OwnPrecision) else model).__name__
        return {"kind": kind, "fingerprint": fingerprint(model), "dtype": precision_of(model)}
    kind = getattr(model, "__qualname__", type(model).__name__)
    return {"kind": kind, "fingerprint": getattr(model, "fingerprint", None)}


@torch.inference_mode()
def check_fixed(model: Model, batch: Tensor, rows_per_call: int, num_classes: int, classifiers: int = 1) -> None:
    """Refuse a model whose answer is not a fixed function of one input, or not (batch, num_classes) finite numbers.

    The batch is run again, and again in smaller parts, and in the company of strangers: dropout left on, and whatever
    else looks at the other rows, change the scores. The rows are copies of one input, so their mean is that input
    almost without noise: a classifier that saw it would be certified at will.

    It is a probe, not a proof. It cannot see what only shows later or elsewhere: a model that counts its calls, reads
    the clock or a file, or recognises these inputs. That f is one fixed function remains the promise of who gives it.

    `num_classes` scores may be those of several `classifiers`, one after another: each is looked at by itself.
    """

    def require_same(once: Tensor, again: Tensor, when: str) -> None:
        width = num_classes // classifiers
        for own, own_again in zip(torch.split(once, width, dim=1), torch.split(again, width, dim=1), strict=True):
            _require_same(own, own_again, when)

    def run(rows: Tensor, size: int) -> Tensor:
        parts = torch.split(rows.clone(), size)  # a clone, because a model may work in place
        return torch.cat([score(model, part, num_classes) for part in parts])

    size = min(rows_per_call, len(batch))
    once = run(batch, size)
    if not bool(torch.isfinite(once).all()):
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    require_same(once, run(batch, size), "when run again")
    require_same(once, run(batch, max(1, size // 2)), "when run again in smaller batches")
    low, high = batch.min(), batch.max()
    for stranger in (low - (high - low), high + (high - low), None):
        mixed = batch.clone()
        mixed[1::2] = -3 * batch[1::2].flip(0) if stranger is None else stranger
        found = run(mixed.flip(0), size).flip(0)  # at other places, too
        require_same(once[::2], found[::2], "in the company of other inputs")


def _require_same(once: Tensor, again: Tensor, when: str) -> None:
    """Refuse scores that differ by more than rounding, and votes that rounding decides."""
    advice = "call model.eval(), or make it free of dropout and batch statistics"
    if not same_scores(once, again):
        gap = float(_changes(once, again).abs().max())
        raise InputError(
            f"model is not a fixed function: the same inputs got score differences {gap:.3g} apart {when}; {advice}"
        )
    other = once.argmax(dim=1) != again.argmax(dim=1)
    moved = int(other.sum())
    if moved > MOST_MOVED * len(once) or bool((other & ~_near_ties(once)).any()):
        raise InputError(
            f"model is not a fixed function: {moved} of {len(once)} equal inputs got another vote {when}; {advice}, "
            "or give it scores that are not lost in rounding"
        )


MOST_MOVED = 1 / 16
"""Of votes, by rounding, and only of near ties, which are rare. Else scores are so large that rounding decides, and
what looks at other rows may hide in it."""


def same_scores(once: Tensor, again: Tensor) -> bool:
    """Whether scores (B, C) are equal but for rounding.

    What decides are differences within a row, so those are compared: each score with the row's first one. They may be
    apart by a thousandth of what tells classes apart, by 2^-16 of how far scores spread, and by four units in the last
    place of the two scores themselves, in their own type. Medians, and each entry by its own size, because a class may
    be masked with a huge number; all of it without what is added to every class, which would hide the rest.
    """
    a = once.double()
    unit = torch.finfo(once.dtype).eps if once.is_floating_point() else 0.0
    telling, spread = _sizes(a)
    allowed = 1e-3 * telling + 2.0**-16 * spread + 4 * unit * (a.abs() + a.amax(dim=1, keepdim=True).abs())
    return bool((_changes(once, again).abs() <= allowed).all())  # not if one is not a number


def _sizes(a: Tensor) -> tuple[Tensor, Tensor]:
    """Of scores (B, C): what tells classes apart, and how far scores spread."""
    ranked = a.sort(dim=1, descending=True).values
    gaps = (ranked[:, :1] - ranked[:, 1:]).median(dim=0).values  # (C - 1,) ascending
    telling = gaps[gaps > 0][:1].sum()  # 0 if all classes have one score
    spread = (a - a.median(dim=1, keepdim=True).values).abs().median()
    return telling, spread


def _near_ties(scores: Tensor) -> Tensor:
    """Rows whose two first classes are hardly told apart, (B,), beside what tells them apart in other rows."""
    a, unit = scores.double(), torch.finfo(scores.dtype).eps if scores.is_floating_point() else 0.0
    telling, spread = _sizes(a)
    first, second = a.topk(2, dim=1).values.unbind(dim=1)
    return first - second <= 1e-3 * telling + (2.0**-16 + 8 * unit) * spread


def _changes(once: Tensor, again: Tensor) -> Tensor:
    """How differences to the score that was the row's first have changed, (B, C)."""
    a, b, first = once.double(), again.double(), once.argmax(dim=1, keepdim=True)
    return (a - a.gather(1, first)) - (b - b.gather(1, first))


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
