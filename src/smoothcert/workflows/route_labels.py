"""What a router is taught: for each training input the strength of noise at which inputs like it are the safest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smoothcert.core.model import Model, device_of, evaluating
from smoothcert.core.randomness import generator
from smoothcert.datasets import Dataset
from smoothcert.noise import Noise
from smoothcert.workflows.observer import SILENT, Observer, task
from smoothcert.workflows.sources import Classifier

AT_ONCE = 64  # inputs that are looked at together
CLAMP = 1e-4
"""Mean scores count as at most 1 - 1e-4, which is about what 100 000 draws can show: without a limit the widest noise
would be best wherever all draws agree."""
NEIGHBOURS = 10
DIRECTIONS = 64
"""In which neighbours are measured: distances along so many random directions are right to about a tenth."""
OWN = 1e-6  # what an input's own radius counts where its neighbourhood is undecided

Radii = npt.NDArray[np.float64]


def member_radii(
    members: Mapping[float, Classifier],
    noises: Mapping[float, Noise],
    data: Dataset,
    *,
    draws: int,
    seed: int = 0,
    observer: Observer = SILENT,
) -> Radii:
    """Soft radii of every input for its right class, by each member at its strength, (K, N).

    They are those of the mean scores of `draws` noisy copies (Zhai et al. 2020, equation 7), and negative where another
    class is ahead.
    """
    radii = np.empty((len(members), len(data)))
    with task(observer, "label", total=len(members) * len(data)) as under_way:
        for number, (strength, member) in enumerate(members.items()):
            for start in range(0, len(data), AT_ONCE):
                rows = list(range(start, min(len(data), start + AT_ONCE)))
                stream = generator(seed, "router", f"label/{number}", start // AT_ONCE)
                truth = torch.from_numpy(data.labels[rows].copy())
                radii[number, rows] = soft_radii(
                    member.model, data.tensors(rows), truth, noises[strength], draws=draws, stream=stream
                )
                under_way.advance(len(rows))
    return radii


def route_labels(radii: Radii, data: Dataset, *, neighbours: int = NEIGHBOURS, seed: int = 0) -> npt.NDArray[np.int64]:
    """For each input the number of the strength, ascending, that suits it and its neighbours best, (N,).

    What counts is the sum of the soft radii (K, N) of its nearest `neighbours`, itself included, where a wrong answer
    is worth 0: what a router loses by choosing for an input as it does for others near it is what that costs there, and
    where little is at stake the neighbours decide. So labels change seldom from an input to the next, and the router's
    own radius, which limits every certificate, can be large. Where all are worth as much, the input's own radius
    decides, least wrong first, and then the smaller strength.
    """
    worth = np.maximum(radii, 0)
    if neighbours > 1:
        near = nearest(data, min(neighbours, len(data)), seed)  # (N, m)
        worth = np.stack([row[near].mean(axis=1) for row in worth])
    best: npt.NDArray[np.int64] = np.argmax(worth + OWN * radii, axis=0).astype(np.int64)
    return best


@torch.inference_mode()
def nearest(data: Dataset, count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """The numbers of the `count` inputs nearest to each, itself among them, by l2 distance or nearly, (N, m)."""
    parts, size = [], data.tensors([0]).numel()
    stream = generator(seed, "router", "neighbours", 0)
    directions = torch.randn(size, min(size, DIRECTIONS), generator=stream)
    for start in range(0, len(data), 1024):
        rows = list(range(start, min(len(data), start + 1024)))
        parts.append(data.tensors(rows).flatten(1) @ directions)  # (B, P)
    points = torch.cat(parts)
    squares = points.square().sum(dim=1)  # (N,)
    found = []
    for start, some in zip(range(0, len(data), 1024), parts, strict=True):
        far = squares - 2 * some @ points.T  # (B, N), but for what is the same along a row
        own = torch.arange(len(some))
        far[own, start + own] = -torch.inf
        found.append(far.topk(count, dim=1, largest=False).indices)
    near: npt.NDArray[np.int64] = torch.cat(found).numpy()
    return near


@torch.inference_mode()
def soft_radii(model: Model, x: Tensor, y: Tensor, noise: Noise, *, draws: int, stream: torch.Generator) -> Radii:
    """Soft radii of inputs x (B, ...) for their right classes y (B,), from so many noisy copies of each: (B,)."""
    copies = x.repeat_interleave(draws, dim=0)  # (B m, ...)
    noisy = noise.for_inputs(x).draw(copies, stream).to(device_of(model))
    with evaluating(model):
        scores = torch.cat([model(part) for part in torch.split(noisy, 256)]).double().cpu()  # (B m, C)
    mean = torch.softmax(scores, dim=1).view(len(x), draws, -1).mean(dim=1)  # (B, C)
    right = mean.gather(1, y[:, None])[:, 0]  # (B,)
    others = mean.scatter(1, y[:, None], 0.0).amax(dim=1)  # (B,)
    found: Radii = noise.soft_radius(right, others, clamp=CLAMP).numpy()
    return found
