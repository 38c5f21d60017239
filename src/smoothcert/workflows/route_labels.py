"""What a router is taught: for each training input the strength of noise at which inputs like it are the safest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
"""Shares of votes count as at most 1 - 1e-4, which is about what 100 000 draws can show: without a limit the widest
noise would be best wherever all draws agree."""
NEIGHBOURS = 10
DIRECTIONS = 64
"""In which neighbours are measured: distances along so many random directions are right to about a tenth."""
TINY = 1e-12  # so far apart all margins of an input count as being
OWN = 1e-6  # what an input's own radius counts where its neighbourhood is undecided

Radii = npt.NDArray[np.float64]


def member_radii(
    members: Mapping[float, Classifier],
    noises: Mapping[float, Noise],
    data: Dataset,
    *,
    draws: int,
    seed: int = 0,
    rows: Sequence[int] | None = None,
    observer: Observer = SILENT,
) -> Radii:
    """The radius of every input for its right class that votes will show, by each member at its strength, (K, N).

    Of all inputs, or of these rows.

    It is estimated from `draws` noisy copies (`vote_share`), and negative where another class is ahead.
    """
    asked = range(len(data)) if rows is None else rows
    radii = np.empty((len(members), len(asked)))
    with task(observer, "label", total=radii.size) as under_way:
        for number, (strength, member) in enumerate(members.items()):
            for start in range(0, len(asked), AT_ONCE):
                some = list(asked[start : start + AT_ONCE])
                stream = generator(seed, "router", f"label/{number}", start // AT_ONCE)
                x, truth = data.tensors(some), torch.from_numpy(data.labels[some].copy())
                scores = noisy_scores(member.model, x, noises[strength], draws=draws, stream=stream)
                found = vote_radii(scores, truth, noises[strength].for_inputs(x))
                radii[number, start : start + len(some)] = found
                under_way.advance(len(some))
    return radii


def route_labels(radii: Radii, data: Dataset, *, neighbours: int = NEIGHBOURS, seed: int = 0) -> npt.NDArray[np.int64]:
    """For each input the number of the strength, ascending, that suits it and its neighbours best, (N,).

    What counts is the sum of the radii (K, N) of its nearest `neighbours`, itself included, where a wrong answer
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
def noisy_scores(model: Model, x: Tensor, noise: Noise, *, draws: int, stream: torch.Generator) -> Tensor:
    """Scores of so many noisy copies of each of the inputs x (B, ...), (B, m, C) in float64."""
    copies = x.repeat_interleave(draws, dim=0)  # (B m, ...)
    noisy = noise.for_inputs(x).draw(copies, stream).to(device_of(model))
    with evaluating(model):
        scores = torch.cat([model(part) for part in torch.split(noisy, 256)]).double().cpu()  # (B m, C)
    return scores.view(len(x), draws, -1)


def vote_share(scores: Tensor, label: Tensor) -> Tensor:
    """The share of votes for each input's label (B,) that many draws will show, estimated from few: (B,).

    scores (B, m, C). The margins of the label over the best other class are taken as normal, so the share is
    Phi(mean / standard deviation): votes of a few draws are all or nothing for most inputs, and mean scores (Zhai et
    al. 2020, equation 7) are far below the share of votes, and the farther the stronger the noise, which would make
    weak noise look better than it is.
    """
    index = label[:, None, None].expand(-1, scores.shape[1], 1)  # (B, m, 1)
    margins = scores.gather(2, index)[..., 0] - scores.scatter(2, index, -torch.inf).amax(dim=2)  # (B, m)
    spread = margins.std(dim=1, correction=0).clamp_min(TINY)
    share: Tensor = torch.special.ndtr(margins.mean(dim=1) / spread)
    return share


def vote_radii(scores: Tensor, label: Tensor, noise: Noise) -> Radii:
    """Radii of `vote_share` of each input's label, (B,); negative where another class is ahead."""
    share = vote_share(scores, label)
    found: Radii = noise.soft_radius(share, 1 - share, clamp=CLAMP).numpy()
    return found
