"""A sigma for each input against one for all: python benchmarks/sigma.py MODEL... --data mnist.npz [--curve]

For each model: the mean certified radius (ACR) and the accuracy with the sigma of its training for all inputs, and with
the sigma that each search finds; and what a memory leaves of it. `--curve` also shows what more evaluations buy, of our
search and of the paper's (DDRS, Alfarra et al. 2022), where an evaluation is a noisy input through the model, and a
gradient is one more. A certificate is a function of (seed, input, sigma), so the same sigma found by two searches is
certified once, and differences between rows are those of sigma alone.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

import smoothcert as sc
from smoothcert import datasets, models
from smoothcert.engine.pools import Threads
from smoothcert.engine.sigma import DDRS, Bracket, Grid, SigmaSearch

CALIBRATION = 512
SEARCHES = (Bracket(), DDRS(steps=336), Grid(steps=84, draws=8))  # 704 evaluations each
CURVE: tuple[SigmaSearch, ...] = (
    *SEARCHES,
    *(Bracket(steps=steps) for steps in (9, 7, 5, 3)),
    *(Bracket(draws=draws) for draws in (128, 32, 16, 8)),
    *(DDRS(steps=steps) for steps in (900, 144, 72)),
    DDRS(steps=42, draws=8),
    DDRS(steps=336, lr=1e-3),
    DDRS(steps=100),  # 200 evaluations, as the paper
    Grid(),
    Grid(steps=21, draws=32),
)


@dataclass
class Bench:
    """One model on some images; certificates are kept by (image, sigma)."""

    smoothed: sc.Smoothed
    x: Tensor
    y: list[int]
    procedure: sc.Fixed
    kept: dict[tuple[int, float], sc.Certificate] = field(default_factory=dict)

    @property
    def sigma0(self) -> float:
        """Of training."""
        return self.smoothed.noise.strength

    def find(self, search: SigmaSearch) -> tuple[list[float], float]:
        """The sigmas that a search finds, and its seconds of one core per image."""
        compiled = self.smoothed.compile(self.x.shape[1:])
        run_all, begin = Threads(compiled.workers).open(compiled).map, time.process_time()
        found = search.strengths(run_all, compiled.model, self.x, self.smoothed.noise, seed=1, threads=1)
        return found, (time.process_time() - begin) / len(self.x)

    def certify(self, sigmas: list[float]) -> list[sc.Certificate]:
        """A certificate of each image with its sigma."""
        rows = [row for row, sigma in enumerate(sigmas) if (row, sigma) not in self.kept]
        noises = [self.smoothed.noise.with_strength(sigmas[row]) for row in rows]
        if rows:
            for row, certificate in zip(
                rows, self.smoothed.certify(self.x[rows], self.procedure, noises=noises), strict=True
            ):
                self.kept[row, sigmas[row]] = certificate
        return [self.kept[row, sigma] for row, sigma in enumerate(sigmas)]

    def row(self, name: str, evaluations: int, sigmas: list[float], seconds: float, fixed: list[float]) -> str:
        """A line of the table."""
        certificates = self.certify(sigmas)
        radii = self.radii(certificates)
        gain = [a - b for a, b in zip(radii, fixed, strict=True)]
        error = statistics.stdev(gain) / len(gain) ** 0.5
        right = sum(c.label == y for c, y in zip(certificates, self.y, strict=True)) / len(radii)
        between = statistics.quantiles(sigmas, n=10)
        return (
            f"| {name} | {evaluations} | {statistics.mean(radii):.4f} | {statistics.mean(gain):+.4f} ± {error:.4f} | "
            f"{right:.1%} | {between[0]:.3f} - {between[-1]:.3f} | {1000 * seconds:.1f} |"
        )

    def radii(self, certificates: list[sc.Certificate]) -> list[float]:
        """What ACR is the mean of."""
        return [c.radius if c.label == y else 0.0 for c, y in zip(certificates, self.y, strict=True)]

    def remembered(self, sigmas: list[float]) -> str:
        """What a memory makes of the certificates of these sigmas, inserted in order."""
        certificates, noise = self.certify(sigmas), self.smoothed.noise.for_inputs(self.x)
        with tempfile.TemporaryDirectory() as folder:
            memory = sc.Memory(str(Path(folder) / "regions.sqlite"))
            memory.claim(self.smoothed.describe(), noise.describe(), tuple(self.x.shape[1:]))
            kept = [memory.insert(x.numpy(), c) for x, c in zip(self.x, certificates, strict=True)]
        overruled, cut = sum(c.overruled for c in kept), sum(c.cut for c in kept)
        acr = statistics.mean(self.radii(kept))
        return f"through a memory: ACR {acr:.4f}, {overruled} answers overruled, {cut} regions cut"


def bench(model: Path, options: argparse.Namespace) -> Bench:
    checkpoint = models.load(model)
    test = datasets.load(options.data, "test")
    rows = list(range(0, len(test), len(test) // options.images))[: options.images]
    train = datasets.load(options.data, "train")
    calibration = train.tensors(range(0, len(train), len(train) // CALIBRATION))
    smoothed = sc.Smoothed(
        checkpoint.model,
        checkpoint.architecture.num_classes,
        sc.Gaussian(float(checkpoint.details["noise"]["sigma"]), grid=1 / 255),
        workers=options.workers,
        backend=options.backend,
        calibration=calibration if options.backend.endswith("int8") else None,
        input_range=(0, 1),
    )
    return Bench(smoothed, test.tensors(rows), test.labels[rows].tolist(), sc.Fixed(n=options.n, alpha=0.001))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+", type=Path)
    parser.add_argument("--data", required=True, help="a data set: mnist, or an .npz file")
    parser.add_argument("--images", type=int, default=200, help="of the test set, equally spaced")
    parser.add_argument("--n", type=int, default=10_000, help="draws per certificate")
    parser.add_argument("--backend", default="openvino-int8")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--curve", action="store_true", help="more settings of each search")
    parser.add_argument("--methods", nargs="+", default=["bracket", "ddrs", "grid"], help="which searches")
    options = parser.parse_args()
    searches = [one for one in (CURVE if options.curve else SEARCHES) if one.name in options.methods]
    torch.set_num_threads(1)
    for path in options.model:
        one = bench(path, options)
        print(
            f"\n{path.parent.name}: sigma_0 {one.sigma0:g}, {len(one.y)} images, n = {options.n}, {options.backend}\n"
        )
        print("| sigma | evaluations | ACR | gain | accuracy | middle 80% of sigmas | search, core ms/image |")
        print("|---|---|---|---|---|---|---|")
        fixed = one.radii(one.certify([one.sigma0] * len(one.y)))
        print(one.row("one for all", 0, [one.sigma0] * len(one.y), 0.0, fixed), flush=True)
        best: list[float] = []
        for search in searches:
            if isinstance(search, Bracket):
                search = Bracket(search.steps, search.draws, n=options.n)  # noqa: PLW2901
            found, seconds = one.find(search)
            best = best or found
            rate = f", lr {search.lr:g}" if isinstance(search, DDRS) and search.lr != DDRS.lr else ""
            name = f"{search.name}, {search.steps} x {search.draws}{rate}"
            print(one.row(name, search.evaluations, found, seconds, fixed), flush=True)
        if best:
            print(f"\n{one.remembered(best)}", flush=True)


if __name__ == "__main__":
    main()
