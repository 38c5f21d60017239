"""What members say about noisy hold-out inputs: the ground that weights and rankings stand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of, evaluating
from smoothcert.core.randomness import generator, input_id
from smoothcert.noise import Noise

ROWS = 256  # noisy inputs per call


def check_holdout(x: Tensor, y: Tensor | None, apart_from: Tensor | None) -> None:
    """Refuse hold-out data without inputs, with another number of labels, or with inputs of `apart_from`.

    Inputs are compared by content: numbers measured on inputs that chose the weights would flatter the ensemble.
    """
    if not len(x) or (y is not None and len(y) != len(x)):
        labels = "no" if y is None else len(y)
        raise InputError(f"x must have inputs, and y as many labels, got {len(x)} inputs and {labels} labels")
    if apart_from is not None:
        refuse_overlap({input_id(one) for one in x}, apart_from)


def refuse_overlap(held_out: set[str], others: Tensor, what: str = "apart_from") -> None:
    """Refuse if any of the inputs `others` (N, ...) is among the held out ones, which are named by `input_id`."""
    shared = [row for row, other in enumerate(others) if input_id(other) in held_out]
    if shared:
        raise InputError(
            f"{len(shared)} of the {len(others)} inputs of {what} were held out to make the ensemble, the first is in "
            f"row {shared[0]}; choose others, such as 0, 20, 40, ... to certify and 1, 21, 41, ... to hold out"
        )


def noisy(x: Tensor, noise: Noise, draws: int, seed: int, purpose: str) -> Iterator[tuple[slice, Tensor]]:
    """Noisy copies of inputs x (N, ...), in batches: which inputs, and (their number * draws, ...), input by input.

    The noise of an input is a function of (seed, input, purpose), and the same for all members.
    """
    bound, many = noise.for_inputs(x), max(1, ROWS // draws)
    for start in range(0, len(x), many):
        rows = slice(start, min(start + many, len(x)))
        yield (
            rows,
            torch.cat(
                [
                    bound.at(one).draw(one.expand(draws, *one.shape), generator(seed, input_id(one), purpose, 0))
                    for one in x[rows]
                ]
            ),
        )


def label_probabilities(
    members: Sequence[nn.Module], x: Tensor, y: Tensor, noise: Noise, draws: int, seed: int, purpose: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each member's probability of the label, and whether it answers the label: (N, draws, k) both."""
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}")
    p = np.empty((len(x), draws, len(members)))
    right = np.empty(p.shape, dtype=np.bool_)
    with torch.inference_mode(), evaluating(*members):
        for rows, batch in noisy(x.float(), noise, draws, seed, purpose):
            labels = y[rows].long().repeat_interleave(draws)
            for k, member in enumerate(members):
                scores = member(batch.to(device_of(member), copy=True)).double().cpu()
                chosen = scores.softmax(1).gather(1, labels[:, None])[:, 0]
                p[rows, :, k] = chosen.view(-1, draws).numpy()
                right[rows, :, k] = (scores.argmax(1) == labels).view(-1, draws).numpy()
    return p, right


def noisy_logits(
    members: Sequence[nn.Module], x: Tensor, noise: Noise, draws: int, seed: int = 0, purpose: str = "variance"
) -> NDArray[np.float64]:
    """The logits of all members under the same noise, (N, draws, k, C): what the analysis of variance needs."""
    found: list[Tensor] = []
    with torch.inference_mode(), evaluating(*members):
        for _, batch in noisy(x.float(), noise, draws, seed, purpose):
            scores = [member(batch.to(device_of(member), copy=True)).double().cpu() for member in members]
            found.append(torch.stack(scores, 1).view(-1, draws, len(members), scores[0].shape[1]))
    return torch.cat(found).numpy()


def clean_logits(members: Sequence[nn.Module], x: Tensor) -> NDArray[np.float64]:
    """The logits of all members without noise, (N, k, C)."""
    with torch.inference_mode(), evaluating(*members):
        parts = [
            torch.stack([member(rows.to(device_of(member), copy=True)).double().cpu() for member in members], 1)
            for rows in torch.split(x.float(), ROWS)
        ]
    return torch.cat(parts).numpy()
