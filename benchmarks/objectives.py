"""Which training certifies most? python benchmarks/objectives.py --out DIR [--epochs N] [--methods gaussian macer ...]

Trains a network on the 4000 training images of mnist5k by the `-fast` recipe of every method, the same number of epochs
each, certifies the same test images with Fixed(n) and prints ACR and the difference to Gaussian, paired by image, each
with a 95% interval. The intervals speak about images like these, for these networks; other seeds are other networks.
Stopped at any moment, the same command goes on; with --methods two processes can share the work in one folder.
"""

import argparse
import json
from pathlib import Path

from smoothcert.analysis import Results, acr_interval, average_certified_radius, compare, read
from smoothcert.analysis.comparison import plus
from smoothcert.datasets import Subset, load
from smoothcert.present.tables import radius_ends
from smoothcert.procedures import Fixed
from smoothcert.stats.rounding import down, up
from smoothcert.training.recipes import Recipe, find
from smoothcert.training.recipes.build import change
from smoothcert.workflows.certify import certify
from smoothcert.workflows.choices import NoiseChoice
from smoothcert.workflows.terminal import terminal_observer
from smoothcert.workflows.train import train_recipe

METHODS = ("gaussian", "consistency", "smoothadv", "smoothmix", "macer", "advmacer")


def recipe_of(method: str, options: argparse.Namespace) -> Recipe:
    """The `-fast` recipe; with another number of epochs, warm-ups and delays keep their share of the training."""
    recipe = find(f"mnist-lenet-{method}-{options.sigma:.2f}-fast")
    epochs = options.epochs or recipe.epochs
    times = {key: recipe.objective[key] for key in ("warmup", "deferred_until") if key in recipe.objective}
    scaled = [f"objective.{key}={round(time * epochs / recipe.epochs)}" for key, time in times.items()]
    return change(recipe, [f"architecture={options.network}", f"epochs={epochs}", *scaled])


def run(method: str, options: argparse.Namespace) -> Path:
    """Train and certify, or what is left of it. Gives the folder of the method."""
    folder = options.out / method
    print(method, flush=True)
    with terminal_observer() as observer:
        train_recipe(
            recipe_of(method, options), load("mnist5k", "train"), seed=options.seed, out=folder, observer=observer
        )
        certify(
            folder / "model.safetensors",
            "mnist5k",
            noise=NoiseChoice(),
            procedure=Fixed(n=options.n),
            out=folder / "run",
            subset=Subset(start=options.start, limit=options.images),
            backend=options.backend,
            observer=observer,
        )
    return folder


def table(folders: list[Path]) -> None:
    """A row per method, compared with Gaussian if that is among them."""
    base = read(folders[0] / "run") if folders[0].name == METHODS[0] else None
    print("| method | epochs | training, s | ACR (95%) | difference to Gaussian (95%) |\n|---|---|---|---|---|")
    for folder in folders:
        epochs = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        result = read(folder / "run")
        low, high = radius_ends(acr_interval(result.records, seed=0))
        cells = [folder.name, str(len(epochs)), f"{sum(epoch['seconds'] for epoch in epochs):.0f}"]
        cells.append(f"{down(average_certified_radius(result.records), 4)} ({low}-{high})")
        print(f"| {' | '.join(cells)} | {'' if base is None or folder == folders[0] else difference(result, base)} |")


def difference(result: Results, base: Results) -> str:
    """Of the ACR on the images that both have, with the interval of the difference."""
    duel = compare(result, base)
    low, high = plus(down(duel.acr_interval.low, 4)), plus(up(duel.acr_interval.high, 4))
    return f"{duel.acr_difference:+.4f} ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--network", choices=("lenet", "lenet-small"), default="lenet-small")
    parser.add_argument("--sigma", type=float, choices=(0.25, 0.5, 1.0), default=0.5)
    parser.add_argument("--epochs", type=int, default=None, help="of every method; default: the recipes'")
    parser.add_argument("--start", type=int, default=0, help="first test image")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--backend", default="openvino-int8", help="of all certificates, as in smoothcert certify")
    parser.add_argument("--seed", type=int, default=0, help="of training")
    options = parser.parse_args()
    folders = [run(method, options) for method in METHODS if method in options.methods]
    print(
        f"\n{options.network} on mnist5k, sigma {options.sigma:g}, training seed {options.seed}; test images "
        f"{options.start}-{options.start + options.images - 1}, n = {options.n}, {options.backend}\n"
    )
    table(folders)


if __name__ == "__main__":
    main()
