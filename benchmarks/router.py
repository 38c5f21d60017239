"""What the radius of a router's own costs: python benchmarks/router.py [--data mnist.npz] [--epochs 3]

Two packaged networks, sigma .5 and 1, and a router of sigma 1 between them, judged on the training images that every
recipe holds out. Radii of members are of 1000 votes, as `--n` draws would show them at half of alpha; those of the
router likewise, of 400 draws and, where nearly all agree, of the normal law of its margins. An offset of the router's
scores decides how readily it leaves sigma 1. Beside it: choices that know the truth, or the nearest training images.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import special, stats
from torch import Tensor, nn
from torch.nn import functional as F

import smoothcert as sc
from smoothcert import models
from smoothcert.core.model import Model
from smoothcert.datasets import Dataset, load
from smoothcert.models.zoo import zoo_model
from smoothcert.training import hold_out
from smoothcert.training.schedules import OneCycle
from smoothcert.workflows.route_labels import member_radii
from smoothcert.workflows.sources import open_model

SIGMAS, ALPHA, VOTES, DRAWS, BATCH = (0.5, 1.0), 0.0005, 1000, 400, 128
HELD, LAM, ETA, LR, COPIES = 0.02, 5.0, 0.5, 0.03, 2  # of the recipes, and of Consistency
OFFSETS = (0.0, -0.25, -0.5, -0.75, -1.0, -1.625)
Array = npt.NDArray[Any]


def radius(share: Array, sigma: float, n: int) -> Array:
    """What n draws with that share of votes show."""
    share = np.minimum(share, 1 - 3e-4)  # 1000 votes cannot tell more
    low = special.betaincinv(np.maximum(share * n, 1e-9), n - share * n + 1, ALPHA)
    return np.where(low > 0.5, sigma * stats.norm.ppf(np.clip(low, 0.5, 1)), 0.0)


def voted_radii(model: Model, sigma: float, x: Tensor, y: Array, n: int) -> Array:
    """Of the right class, 0 where another one is ahead: (N,)."""
    smoothed = sc.Smoothed(model, num_classes=10, noise=sc.Gaussian(sigma=sigma, grid=1 / 255), backend="openvino")
    found = smoothed.certify(x, sc.Fixed(n0=64, n=VOTES, alpha=0.001))
    tallies = [dict(one.answers) for one in found]
    right = np.array([np.argmax(tally["choose"].votes) == label for tally, label in zip(tallies, y, strict=True)])
    share = np.array([tally["bound"].votes[label] / VOTES for tally, label in zip(tallies, y, strict=True)])
    return np.where(right, radius(share, sigma, n), 0.0)


def batches(count: int, epochs: int) -> Iterator[tuple[Tensor, float]]:
    """Rows of each step, and how far training is, in epochs."""
    chance, steps = torch.Generator().manual_seed(0), count // BATCH
    for epoch in range(epochs):
        for step, rows in enumerate(torch.split(torch.randperm(count, generator=chance)[: steps * BATCH], BATCH)):
            yield rows, epoch + step / steps


def train_router(x: Tensor, gain: Array, epochs: int) -> nn.Module:
    """Consistency on "is sigma 1 the better one?", each input weighted by what its choice is worth, (N,)."""
    first = models.load(zoo_model("mnist-1.00").file)
    assert isinstance(first.architecture, models.Architecture)
    assert isinstance(first.model, nn.Module)
    router = models.build(dataclasses.replace(first.architecture, num_classes=2), seed=0).train()
    kept = {k: v for k, v in first.model.state_dict().items() if v.shape == router.state_dict()[k].shape}
    router.load_state_dict(kept, strict=False)
    optimizer = torch.optim.SGD(router.parameters(), lr=LR, momentum=0.9, nesterov=True, weight_decay=1e-4)
    label, weight = torch.from_numpy(gain > 0).long(), torch.from_numpy(np.abs(gain) / np.abs(gain).mean()).float()
    chance = torch.Generator().manual_seed(1)
    for rows, now in batches(len(x), epochs):
        optimizer.param_groups[0]["lr"] = LR * OneCycle().factor(now, epochs)
        copies = x[rows].repeat_interleave(COPIES, dim=0)
        noisy = copies + SIGMAS[1] * torch.randn(copies.shape, generator=chance)
        logs = F.log_softmax(router(noisy).view(len(rows), COPIES, 2), dim=-1)
        mean = logs.exp().mean(dim=1)  # (B, 2)
        log_mean = mean.clamp_min(1e-12).log()
        own = -logs.gather(2, label[rows, None, None].expand(-1, COPIES, 1)).mean(dim=(1, 2))  # (B,)
        divergence, entropy = (mean * (log_mean - logs.mean(dim=1))).sum(dim=1), -(mean * log_mean).sum(dim=1)
        loss = (weight[rows] * own).mean() + LAM * divergence.mean() + ETA * entropy.mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return router.eval()


@torch.inference_mode()
def margins(router: nn.Module, x: Tensor) -> Array:
    """Score of sigma 1 over that of sigma .5, under each draw of noise: (N, DRAWS)."""
    chance, found = torch.Generator().manual_seed(2), []
    for one in x:
        scores = router(one + SIGMAS[1] * torch.randn(DRAWS, *one.shape, generator=chance))
        found.append((scores[:, 1] - scores[:, 0]).numpy())
    return np.stack(found)


def row(name: str, wide: Array, radii: Sequence[Array], own: Array | None) -> None:
    """Print what choices (N,) are worth, and what is left of it within the router's own radius."""
    chosen = np.where(wide, radii[1], radii[0])
    left = "" if own is None else f"{np.minimum(chosen, own).mean():.4f}"
    limited = "" if own is None else f"{100 * (own < chosen).mean():.0f}%"
    print(f"| {name} | {100 * (~wide).mean():.0f}% | {chosen.mean():.4f} | {left} | {limited} |", flush=True)


def main(data: Dataset, epochs: int, n: int) -> None:
    kept, held = hold_out(len(data), HELD)
    names = {sigma: f"mnist-{sigma:.2f}" for sigma in SIGMAS}
    members = {sigma: open_model(zoo_model(name).file) for sigma, name in names.items()}
    noises = {sigma: sc.Gaussian(sigma) for sigma in SIGMAS}
    known = np.maximum(member_radii(members, noises, data, draws=16), 0.0)  # (2, all)
    x, y = data.tensors(held), data.labels[held]
    radii = [voted_radii(models.load(zoo_model(name).file).model, sigma, x, y, n) for sigma, name in names.items()]
    best, spread = np.maximum(*radii), (np.maximum(*radii) - radii[1]).std() / len(x) ** 0.5
    router = train_router(data.tensors(kept), (known[1] - known[0])[kept], epochs)
    found = margins(router, x)
    mean, deviation = found.mean(axis=1), found.std(axis=1) + 1e-6

    print(f"{len(x)} held-out images; the oracle gains {(best - radii[1]).mean():.4f} +- {spread:.4f} over sigma 1\n")
    print("| | chooses .5 for | ACR if its choices held everywhere | ACR routed | its own radius is the smaller one |")
    print("|---|---|---|---|---|")
    row("sigma 1 for all", np.ones(len(x), dtype=bool), radii, np.full(len(x), np.inf))
    for offset in OFFSETS:
        votes = (found + offset > 0).mean(axis=1)
        share = np.where((votes > 0.02) & (votes < 0.98), votes, special.ndtr((mean + offset) / deviation))
        own = radius(np.maximum(share, 1 - share), SIGMAS[1], n)
        row(f"router, offset {offset:g}", share > 0.5, radii, own)
    distance = torch.cdist(x.flatten(1), data.tensors(kept).flatten(1)).numpy()  # (N, kept)
    wants = known[1, kept] > known[0, kept]
    near = [np.where(side, distance, np.inf).min(axis=1) for side in (~wants, wants)]
    row("the nearest training image, with its exact radius", near[1] < near[0], radii, np.abs(near[1] - near[0]) / 2)
    wide = radii[1] > radii[0]
    needed = np.where(wide[:, None] == wants, np.inf, distance - known.max(axis=0)[kept]).min(axis=1)
    row("oracle, as far as no training image of the other choice needs the room", wide, radii, np.maximum(needed, 0))
    other = np.where(wide, near[0], near[1])
    print(f"\nmedian distance to the nearest training image {np.median(np.minimum(*near)):.1f}, ", end="")
    print(f"to the nearest that wants the other sigma {np.median(other):.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", help="as in smoothcert train")
    parser.add_argument("--epochs", type=int, default=3, help="of the router")
    parser.add_argument("--n", type=int, default=10_000, help="draws that radii are computed for")
    options = parser.parse_args()
    main(load(options.data, "train"), options.epochs, options.n)
