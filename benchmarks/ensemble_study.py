"""What ensembles bring and cost: python benchmarks/ensemble_study.py --gaussian G --consistency C --data mnist.npz

G and C are folders of members, trained under the same noise on the same data:

    smoothcert train mnist-lenet-gaussian-0.50-fast --seeds 0-4 --out G
    smoothcert train mnist-lenet-consistency-0.50-fast --seeds 0-2 --out C

Every member is asked once about every draw. Votes of all ensembles follow from these scores by the ensembles' own code,
on the draws that `Smoothed` would take, and certificates by `Fixed`. Members are ranked, and weights are found, on the
part of the training data that training held out. Prints Markdown; intervals are of 95%. What is done is kept in --out:
the same command goes on where it stopped.
"""

import argparse
import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert import datasets
from smoothcert.analysis import variance
from smoothcert.analysis.measures import mean_interval
from smoothcert.core.randomness import RowStream, input_id
from smoothcert.engine.backends.ensemble import EnsembleRunner
from smoothcert.models import ensembles
from smoothcert.models.ensembles.sampling import noisy_logits
from smoothcert.procedures.conversation import BOUND, CHOOSE, converse
from smoothcert.training import hold_out

CLASSES, HELD_OUT = 10, 300
THRESHOLDS, LEVELS = (0.9, 0.99, 0.999, 1.0), {"0.67": 0.5, "1.96": 0.05, "3.29": 0.001}  # T; z and its a
Gains = dict[str, np.ndarray]  # of every rule, what each image adds to the ACR


@dataclass(frozen=True)
class Rule:
    """An ensemble, and which of all members are its own, in order."""

    ensemble: ensembles.Ensemble
    members: tuple[int, ...]

    def votes(self, scores: Tensor, n0: int) -> tuple[dict[str, sc.Tally], float]:
        """Of scores (members, n0 + n, C): votes by purpose, and evaluations per draw."""
        asking = EnsembleRunner(
            self.ensemble, [scores[member].__getitem__ for member in self.members]
        )  # a draw is its number
        answers = asking(torch.arange(scores.shape[1])).argmax(1)
        parts = {CHOOSE: answers[:n0], BOUND: answers[n0:]}
        found = {name: sc.Tally(tuple(torch.bincount(p, minlength=CLASSES).tolist())) for name, p in parts.items()}
        return found, sum(asking.member_calls) / len(answers)


def rules(nets: list[nn.Module], kinds: list[str], x: Tensor, y: Tensor, noise: sc.Gaussian) -> dict[str, Rule]:
    """Everything that is compared, by name; x, y are held out."""
    order = ensembles.rank(nets, x, y, noise=noise).order
    own = {kind: tuple(m for m in order if kinds[m] == kind) for kind in dict.fromkeys(kinds)}  # the best first
    five = own["gaussian"]
    chosen = [nets[m] for m in five]
    sween = sc.sween_weights(chosen, x, y, noise=noise, method="sgd").weights
    weights = {
        "SWEEN (sgd)": sween,
        "SWEEN (convex)": sc.sween_weights(chosen, x, y, noise=noise, method="convex").weights,
        "largest radius": sc.sween_weights(chosen, x, y, noise=noise, method="radius").weights,
        "minimum-variance": sc.minimum_variance_weights(chosen, x, noise=noise).weights,
    }
    print("ranked: " + ", ".join(f"{kinds[m]} {m}" for m in order))
    for name, found in weights.items():
        print(f"{name} weights of the ranked Gaussians: {', '.join(f'{w:.3f}' for w in found)}")
    out = {f"member {m}": Rule(sc.SoftVoting([nets[m]]), (m,)) for m in range(len(nets))}
    for kind in (sc.SoftVoting, sc.SoftmaxVoting, sc.HardVoting, sc.MaxMargin):
        out[kind.name] = Rule(kind(chosen), five)
    for name, found in weights.items():
        out[f"softmax-voting, {name} weights"] = Rule(sc.SoftmaxVoting(chosen, found), five)
    for size in range(1, len(five)):
        for some in combinations(five, size):
            out[f"size {some}"] = Rule(sc.SoftVoting([nets[m] for m in some]), some)
    for k in range(1, len(five) + 1):
        out[f"consensus {k}"] = Rule(sc.Consensus(chosen, k), five)
    for threshold in THRESHOLDS:
        for z, a in LEVELS.items():
            out[f"early {threshold} {z}"] = Rule(sc.EarlyExit(chosen, sween, threshold, a), five)
    size = len(own.get("consistency", ()))
    for count in range(size + 1) if size else ():
        some = (*own["gaussian"][: size - count], *own["consistency"][:count])
        mix = [nets[m] for m in some]
        out[f"mixed {count} soft-voting"] = Rule(sc.SoftVoting(mix), some)
        out[f"mixed {count} softmax-voting"] = Rule(sc.SoftmaxVoting(mix), some)
        least = sc.minimum_variance_weights(mix, x[: HELD_OUT // 2], noise=noise).weights
        out[f"mixed {count} weighted"] = Rule(sc.SoftmaxVoting(mix, least), some)
    return out


ROWS = 128  # per call


@dataclass(frozen=True)
class Sampling:
    """Runners of all members, and how many draws of which purpose are taken."""

    runners: list
    noise: sc.Gaussian
    n: dict[str, int]

    @torch.inference_mode()
    def scores(self, x: Tensor) -> Tensor:
        """Of all members on the same draws, those that `Smoothed` with seed 0 takes: (members, n0 + n, C)."""
        noise, out = self.noise.at(x), []
        for purpose, n in self.n.items():
            found, drawn = [], torch.empty(-(-n // ROWS) * ROWS, *x.shape)
            noise.draw_rows(x, RowStream(0, input_id(x), purpose), 0, drawn)
            for part in drawn.split(ROWS):
                found.append(torch.stack([run(part.clone()) for run in self.runners]))
            out.append(torch.cat(found, 1)[:, :n])
        return torch.cat(out, 1)


def study(sampling: Sampling, compared: dict[str, Rule], data: datasets.Dataset, rows: list[int], out: Path) -> None:
    """Certify every image by every rule: a line of gains and evaluations per image, appended to `out`."""
    done = {json.loads(line)["index"] for line in out.read_text().splitlines()} if out.exists() else set()
    procedure = sc.Fixed(n0=sampling.n[CHOOSE], n=sampling.n[BOUND])
    for index in [row for row in rows if row not in done]:
        x, label = data.tensors([index])[0], int(data.labels[index])
        scores, line = sampling.scores(x), {"index": index, "gains": {}, "evaluations": {}}
        for name, rule in compared.items():
            votes, evaluations = rule.votes(scores, procedure.n0)
            certificate = converse(procedure.certify(sampling.noise.at(x)), lambda ask, said=votes: said[ask.purpose])
            line["gains"][name] = certificate.radius if certificate.label == label else 0.0
            line["evaluations"][name] = evaluations
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def interval(values: np.ndarray, sign: str = "") -> str:
    """A mean, and where it lies."""
    found = mean_interval(values.tolist(), seed=0)
    return f"{values.mean():{sign}.4f} ({found.low:{sign}.4f} to {found.high:{sign}.4f})"


def kept(gains: np.ndarray, base: np.ndarray, full: np.ndarray) -> str:
    """Which share of the gain of `full` over `base` is left, with a bootstrap interval over images."""
    chosen = np.random.default_rng(0).integers(len(base), size=(2000, len(base)))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (gains - base)[chosen].mean(1) / (full - base)[chosen].mean(1)
        share = (gains - base).mean() / (full - base).mean()
    low, high = np.nanquantile(shares, [0.025, 0.975])
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


def mixtures(gains: Gains) -> None:
    """Ensembles of one size, of two kinds of members."""
    print("\n| Gaussian + consistency | soft voting | softmax voting | minimum-variance weights |\n|---|---|---|---|")
    counts = [int(name.split()[1]) for name in gains if name.startswith("mixed") and name.endswith("weighted")]
    for count in counts:
        cells = [interval(gains[f"mixed {count} {how}"]) for how in ("soft-voting", "softmax-voting", "weighted")]
        print(f"| {max(counts) - count} + {count} | {' | '.join(cells)} |")


def tables(gains: Gains, evaluations: Gains, compared: dict[str, Rule]) -> None:
    """Aggregations, sizes, mixtures, K-consensus, early exit."""
    five = compared[sc.SoftVoting.name].members
    best = gains[f"member {max(five, key=lambda m: gains[f'member {m}'].mean())}"]
    print("\n| | ACR | above the best Gaussian | evaluations per draw |\n|---|---|---|---|")
    for name in [n for n in gains if n.startswith("member")] + [n for n in gains if "voting" in n or "max" in n]:
        if not name.startswith("mixed"):
            apart = "" if gains[name] is best else interval(gains[name] - best, "+")
            print(f"| {name} | {interval(gains[name])} | {apart} | {evaluations[name].mean():.2f} |")
    print("\n| members | ACR, mean over all choices | ACR, the best ranked |\n|---|---|---|")
    for size in range(1, len(five) + 1):
        found = (
            [gains[f"size {some}"] for some in combinations(five, size)] if size < len(five) else [gains["soft-voting"]]
        )
        print(f"| {size} | {interval(np.mean(found, axis=0))} | {found[0].mean():.4f} |")
    if any(name.startswith("mixed") for name in gains):
        mixtures(gains)
    print("\n| K | ACR | share of the gain kept | evaluations per draw | of all |\n|---|---|---|---|---|")
    base, full = gains["consensus 1"], gains[f"consensus {len(five)}"]
    for k in range(1, len(five) + 1):
        cost, one = evaluations[f"consensus {k}"].mean(), gains[f"consensus {k}"]
        print(f"| {k} | {interval(one)} | {kept(one, base, full)} | {cost:.2f} | {cost / len(five):.0%} |")
    print("\n| T | z | ACR | share of the gain kept | evaluations per draw | of all |\n|---|---|---|---|---|---|")
    whole = "softmax-voting, SWEEN (sgd) weights"
    full, all_ = gains[whole], evaluations[whole].mean()
    for threshold in THRESHOLDS:
        for z in LEVELS:
            cost, one = evaluations[f"early {threshold} {z}"].mean(), gains[f"early {threshold} {z}"]
            print(f"| {threshold} | {z} | {interval(one)} | {kept(one, base, full)} | {cost:.2f} | {cost / all_:.0%} |")


def variances(nets: list[nn.Module], held: tuple[Tensor, np.ndarray], x: Tensor, noise: sc.Gaussian, n: int) -> None:
    """The variance ratio and radius predicted from pairs on held-out images, and the ratio measured on test images."""
    logits = noisy_logits(nets, held[0], noise, 128)
    seen = noisy_logits(nets, x, noise, 128)
    planned = variance.plan(logits, held[1], range(1, len(nets) + 1), sigma=noise.sigma, n=n, alpha=0.001)
    print(f"\nzeta_p = {variance.components(logits).zeta_p:.3f}; alpha_i > beta_i for {_mixing(logits):.1%}\n")
    print("| members | variance left, predicted | measured | predicted/measured | radius predicted |")
    print("|---|---|---|---|---|")
    for row in planned:
        measured = variance.measured_ratio(seen, row.size)
        apart = f"{row.predicted / measured:.3f}"
        print(f"| {row.size} | {row.predicted:.4f} | {measured:.4f} | {apart} | {row.radius:.4f} |")


def _mixing(logits: np.ndarray) -> float:
    alpha, beta = variance.mixing(logits)
    return float((alpha > beta).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaussian", type=Path, required=True)
    parser.add_argument("--consistency", type=Path, help="without them there is no table of mixtures")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--backend", default="openvino-int8")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    folders = {"gaussian": options.gaussian, "consistency": options.consistency}
    paths = {kind: sorted(folder.glob("seed*/model.safetensors")) for kind, folder in folders.items() if folder}
    loaded = [ensembles.load_model(path) for found in paths.values() for path in found]
    nets, kinds = [one.model for one in loaded], [kind for kind, found in paths.items() for _ in found]
    (sigma,) = {one.details["noise"]["sigma"] for one in loaded}
    noise = sc.Gaussian(sigma)
    train, test = datasets.load(options.data, "train"), datasets.load(options.data, "test")
    free, held = hold_out(len(train), float(loaded[0].details["recipe"]["holdout"]))
    x, y = train.tensors(held[:HELD_OUT]), torch.from_numpy(train.labels[held[:HELD_OUT]])
    rows = list(range(0, len(test), options.every))
    images = test.tensors(rows)
    compared = rules(nets, kinds, x, y, noise)
    n = {CHOOSE: 100, BOUND: options.n}
    gridded = sc.Gaussian(sigma, grid=1 / 255)
    how = {"backend": options.backend, "calibration": train.tensors(free[:512]), "workers": 1}
    compiled = [sc.Smoothed(net, CLASSES, gridded, **how).compile(images.shape[1:]) for net in nets]
    sampling = Sampling([one.executable.new_runner() for one in compiled], gridded.for_inputs(images), n)
    votes, _ = compared[sc.SoftVoting.name].votes(sampling.scores(images[0]), n[CHOOSE])
    whole = sc.Smoothed(compared[sc.SoftVoting.name].ensemble, CLASSES, gridded, **how)
    assert whole.certify(images[0], sc.Fixed(n0=n[CHOOSE], n=n[BOUND]))[0].tallies == votes, "as Smoothed does"
    study(sampling, compared, test, rows, options.out)
    lines = [json.loads(line) for line in options.out.read_text().splitlines()]
    gains, evaluations = (
        {name: np.array([line[key][name] for line in lines]) for name in compared} for key in ("gains", "evaluations")
    )
    print(f"\nsigma {sigma}, {len(lines)} test images, n = {options.n}, {options.backend}")
    tables(gains, evaluations, compared)
    five = [nets[m] for m in compared[sc.SoftVoting.name].members]
    variances(five, (x[:200], train.labels[held[:200]]), images, noise, options.n)


if __name__ == "__main__":
    main()
