"""Draw docs/pictures/*.svg with the library itself: python docs/draw_pictures.py [NAME ...].

Every run draws the same files: seeds are fixed, and matplotlib is told to write no date and no random names. Text is
grey and the ground is transparent, so that they can be read on light and on dark pages.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

import smoothcert as sc
from smoothcert.analysis.variance import variance_ratio
from smoothcert.models.zoo import zoo_model
from smoothcert.procedures.conversation import Ask, converse

PICTURES = Path(__file__).parent / "pictures"
GREY, BLUE, RED, GREEN, PINK = "#808890", "#2b8cc4", "#e0702a", "#1fa37c", "#c9719f"
STYLE = {
    "svg.hashsalt": "smoothcert", "svg.fonttype": "path", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY,
    "xtick.color": GREY, "ytick.color": GREY, "legend.frameon": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip


class Wave(torch.nn.Module):
    """Two classes in the plane: above and below a wave."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (B, 2)."""
        height = x[:, 1] - 0.5 * torch.sin(2.5 * x[:, 0])
        return torch.stack([-height, height], dim=1)


def plane(size: int, axes: Any) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """A grid of points over [-2, 2] x [-1.5, 1.5], and axes of that part."""
    axes.set(xlim=(-2, 2), ylim=(-1.5, 1.5), aspect="equal", xticks=[], yticks=[])
    xs, ys = np.meshgrid(np.linspace(-2, 2, size), np.linspace(-1.5, 1.5, size))
    return xs, ys, torch.tensor(np.stack([xs.ravel(), ys.ravel()], axis=1), dtype=torch.float32)


def shade(axes: Any, size: int = 300) -> None:
    """What the base classifier answers."""
    xs, ys, points = plane(size, axes)
    answers = Wave()(points).argmax(1).numpy().reshape(xs.shape)
    axes.contourf(xs, ys, answers, levels=[-0.5, 0.5, 1.5], colors=[BLUE, RED], alpha=0.18)


def ball(axes: Any, x: Any, radius: float, colour: str, style: str = "-") -> None:
    """A point and the circle around it."""
    axes.add_patch(mpl.patches.Circle(tuple(x), radius, fill=False, color=colour, linestyle=style, linewidth=1.4))
    axes.plot(*x, "o", color=colour, markersize=4)


def certificate(figure: Figure) -> None:
    """Points, regions, balls."""
    axes = figure.add_subplot()
    shade(axes)
    points = torch.tensor([[-1.2, 0.9], [0.6, -0.5], [1.3, 0.9], [0.0, 0.0]])
    smoothed = sc.Smoothed(Wave(), 2, sc.Gaussian(sigma=0.4), input_shape=(2,))
    for x, found in zip(points.tolist(), smoothed.certify(points, sc.Fixed(n=2_000)), strict=True):
        if found.abstained:
            axes.plot(*x, "x", color=GREY, markersize=7)
        else:
            ball(axes, x, found.radius, (BLUE, RED)[found.label])
    axes.axis("off")


def scope(figure: Figure) -> None:
    """One noise for all, and a noise of each input's own."""
    x, neighbour = [-0.63, -0.6], [-0.63, -0.25]
    left, right = figure.subplots(1, 2)
    wide, narrow = sc.Gaussian(sigma=0.8), sc.Gaussian(sigma=0.1)
    for axes, noise, title in ((left, wide, "one noise for all"), (right, narrow, "a neighbour with its own noise")):
        shade(axes)
        both = torch.tensor([x, neighbour])
        (found,) = sc.Smoothed(Wave(), 2, wide, input_shape=(2,)).certify(both[:1], sc.Fixed(n=20_000))
        (answer,) = sc.Smoothed(Wave(), 2, noise, input_shape=(2,)).predict(both[1:], sc.Predict(n=2_000))
        ball(axes, x, found.radius, (BLUE, RED)[found.label])
        axes.plot(*neighbour, "s", color=(BLUE, RED, GREY)[answer.label], markersize=6)
        axes.set_title(title, color=GREY, fontsize=9)
        axes.axis("off")


def noise(figure: Figure) -> None:
    """Radius over the probability of the class."""
    axes = figure.add_subplot()
    ps = np.linspace(0.5, 0.999, 300)
    for one, colour in (
        (sc.Gaussian(sigma=0.5), BLUE), (sc.Uniform(half_width=0.5), RED), (sc.Laplace(scale=0.35), GREEN),
    ):  # fmt: skip
        name = f"{one.name}, {one.strength_name.replace('_', ' ')} {one.strength:g}: {one.norm}"
        axes.plot(ps, [one.radius(p) for p in ps], color=colour, label=name)
    pixels = sc.Ablation(keep=0.2, values=256)
    axes.plot(ps, [0.25 * pixels.radius(p) for p in ps], color=PINK, label="ablation, keep 0.2: l0, pixels / 4")
    axes.set(xlabel="probability of the class under noise (lower bound)", ylabel="radius")
    axes.legend(labelcolor=GREY)


def procedure(figure: Figure) -> None:
    """Draws to decide a radius."""
    axes = figure.add_subplot()
    gaussian, rng = sc.Gaussian(sigma=0.25), np.random.default_rng(0)
    ps = [0.5, 0.6, 0.7, 0.75, 0.8, 0.82, 0.835, 0.85, 0.87, 0.9, 0.95, 0.99, 1.0]
    asked = (
        ("Fixed, n = 10 000", sc.Fixed(n=10_000), GREY),
        ("Staged", sc.Staged.matching(radius=0.25, n=10_000), RED),
        ("Sequential", sc.Sequential(radius=0.25, n=10_000), BLUE),
    )
    for name, one, colour in asked:
        means = [np.mean([simulated(one, gaussian, p, rng).draws for _ in range(30)]) for p in ps]
        axes.plot(ps, means, "o-", markersize=3, color=colour, label=name)
    axes.axvline(gaussian.required_p(0.25), color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="probability of the class under noise", ylabel="draws per input", yscale="log")
    axes.legend(labelcolor=GREY)


def simulated(one: Any, geometry: sc.Gaussian, p: float, rng: np.random.Generator) -> sc.Certificate:
    """A conversation about an input whose class has probability p."""

    def draw(ask: Ask) -> sc.Tally:
        won = int(rng.binomial(ask.n, p))
        return sc.Tally((won, ask.n - won))

    return converse(one.certify(geometry), draw)


def ensemble(figure: Figure) -> None:
    """What averaging leaves of the variance."""
    axes = figure.add_subplot()
    sizes = range(1, 21)
    for zeta, colour in ((0.0, GREEN), (0.3, BLUE), (0.6, RED)):
        axes.plot(sizes, [variance_ratio(zeta, k) for k in sizes], "o-", markersize=3, color=colour,
                  label=f"two members share {zeta:.0%}")  # fmt: skip
    axes.set(xlabel="members", ylabel="variance, of one member's", ylim=(0, 1.05))
    axes.legend(labelcolor=GREY)


def per_input_noise(figure: Figure) -> None:
    """Radius over sigma, image by image."""
    axes = figure.add_subplot()
    model, images = sc.load_model("zoo:mnist-0.50").model, sc.datasets.load("mnist500", "test")
    sigmas, chosen = [0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2], [0, 7, 8, 11]
    x = images.tensors(chosen)
    radii = []
    for sigma in sigmas:
        smoothed = sc.Smoothed(model, 10, sc.Gaussian(sigma=sigma), input_shape=(1, 28, 28))
        radii.append([found.radius for found in smoothed.certify(x, sc.Fixed(n=500))])
    for place, colour in enumerate((BLUE, RED, GREEN, PINK)):
        label = f"image {chosen[place]} (a {images.labels[chosen[place]]})"
        axes.plot(sigmas, [row[place] for row in radii], "o-", markersize=3, color=colour, label=label)
    axes.set(xlabel="sigma", ylabel="certified l2 radius")
    axes.legend(labelcolor=GREY)


def memory(figure: Figure) -> None:
    """Regions that were inserted one after the other."""
    axes = figure.add_subplot()
    shade(axes)
    points = torch.tensor(np.random.default_rng(5).uniform([-1.8, -1.2], [1.8, 1.2], (12, 2)), dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        smoothed = sc.Smoothed(
            Wave(), 2, sc.Gaussian(sigma=0.5), input_shape=(2,), search=sc.Bracket(draws=64),
            memory=sc.Memory(Path(folder) / "regions.sqlite"),
        )  # fmt: skip
        for x, found in zip(points.tolist(), smoothed.certify(points, sc.Fixed(n=1_000)), strict=True):
            if found.abstained:
                continue
            if found.cut:
                ball(axes, x, found.drawn_radius, GREY, ":")
            ball(axes, x, found.radius, (BLUE, RED)[found.label])
    axes.axis("off")


def audit(figure: Figure) -> None:
    """Claims as they stand in a run, and as they follow from its votes; one was forged."""
    axes = figure.add_subplot()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copytree(zoo_model("mnist-0.50").run, Path(folder) / "run"))
        records = sc.Run.open(path).records()
    again = [one.certificate for one in records if one.certificate is not None and one.certificate.radius > 0]
    shown = [(found.radius, replayed(found)) for found in again]
    forged = len(shown) // 3
    claimed = [radius + (0.9 if place == forged else 0.0) for place, (radius, _) in enumerate(shown)]
    colours = [RED if place == forged else BLUE for place in range(len(shown))]
    axes.scatter([radius for _, radius in shown], claimed, c=colours, s=10)
    axes.set(xlabel="radius from the recorded votes", ylabel="radius in the record")


def replayed(found: sc.Certificate) -> float:
    """The radius that the recorded votes allow."""
    said = iter(found.answers)
    fixed = sc.Fixed(n0=found.procedure["n0"], n=found.procedure["n"], alpha=found.alpha)
    geometry = sc.Gaussian(sigma=found.noise["sigma"])
    return converse(fixed.certify(geometry), lambda _: next(said)[1]).radius


DRAWN: dict[str, tuple[Callable[[Figure], None], float, float]] = {
    "certificate": (certificate, 5.2, 3.9),
    "scope": (scope, 7.2, 3.0),
    "noise": (noise, 5.6, 3.4),
    "procedure": (procedure, 5.6, 3.4),
    "ensemble": (ensemble, 5.6, 3.2),
    "per-input-noise": (per_input_noise, 5.6, 3.4),
    "memory": (memory, 5.2, 3.9),
    "audit": (audit, 4.6, 3.6),
}


def draw(name: str, folder: Path) -> Path:
    """Draw one picture into a folder."""
    function, width, height = DRAWN[name]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        function(figure)
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
    return path


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for each in sys.argv[1:] or DRAWN:
        print(draw(each, PICTURES))
