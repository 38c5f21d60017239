"""What ensembles cost: python benchmarks/ensembles.py [--model cifar-resnet20] [--members 10] [--backend openvino]

K-consensus: seconds per draw against (evaluations per draw) x (seconds per draw of one member), end to end with the
same backend and workers; the bar is 1.15. And soft voting with members apart, as it is run, against one graph of all of
them. Members are copies of one random network, moved apart until about nine of ten draws find the first two agreeing.
Medians of interleaved runs.
"""

import argparse
import copy
import time
from statistics import median

import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.architectures import Architecture, build
from smoothcert.engine.backends import installed

SPECS = {
    "lenet": Architecture("lenet", 10, (1, 28, 28)),
    "cifar-resnet20": Architecture("cifar-resnet20", 10, (3, 32, 32)),
}
NOISE = sc.Gaussian(sigma=0.25)


class Together(nn.Module):
    """Soft voting as a plain module, which backends export whole."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the members' logits."""
        return torch.stack([member(x) for member in self.members]).mean(0)


def network(spec: Architecture) -> nn.Module:
    """Random weights, and batch-norm that has seen noise."""
    model = build(spec, seed=0).train()
    with torch.no_grad():
        for _ in range(5):
            x = torch.rand(64, *spec.input_shape)
            model(x + 0.25 * torch.randn_like(x))
    return model.eval().requires_grad_(False)


def members(spec: Architecture, count: int, x: Tensor) -> list[nn.Module]:
    """Members that differ in all layers, so much that two of them agree on about 90% of noisy inputs.

    In all, because one graph of members with a common layer would run it once.
    """
    base, noisy = network(spec), x[:1] + 0.25 * torch.randn(256, *spec.input_shape)

    def apart(size: float) -> list[nn.Module]:
        out = []
        for seed in range(count):
            member, stream = copy.deepcopy(base), torch.Generator().manual_seed(seed)
            for weight in member.parameters():
                if weight.dim() > 1:
                    weight.add_(size * weight.std() * torch.randn(weight.shape, generator=stream))
            out.append(member)
        return out

    low, high = 0.0, 4.0
    for _ in range(12):
        first, second = apart((low + high) / 2)[:2]
        agree = float((first(noisy).argmax(1) == second(noisy).argmax(1)).double().mean())
        low, high = ((low + high) / 2, high) if agree > 0.9 else (low, (low + high) / 2)
    return apart(low)


def seconds_per_draw(g: sc.Smoothed, x: Tensor, n: int) -> float:
    """End to end; preparation is done before."""
    begin = time.perf_counter()
    g.certify(x, sc.Fixed(n0=100, n=n))
    return (time.perf_counter() - begin) / (len(x) * (n + 100))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SPECS, default="cifar-resnet20")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--backend", default="openvino" if installed("openvino") else "eager")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--draws", type=int, default=20_000, help="of one member and of consensus; voting: a tenth")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    spec = SPECS[options.model]
    x = torch.rand(4, *spec.input_shape)
    nets = members(spec, options.members, x)
    ways: dict[str, nn.Module] = {
        "one member": nets[0],
        "2-consensus": sc.Consensus(nets, k=2),
        "apart": sc.SoftVoting(nets),
        "together": Together(nets),
    }
    smoothed = {
        name: sc.Smoothed(model, 10, NOISE, backend=options.backend, workers=options.workers)
        for name, model in ways.items()
    }
    for g in smoothed.values():
        g.certify(x, sc.Fixed(n0=100, n=300))
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, g in smoothed.items():
            few = options.draws // (len(x) if name in ("one member", "2-consensus") else 10 * len(x))
            taken[name].append(seconds_per_draw(g, x, few))
    typical = {name: median(times) for name, times in taken.items()}
    asked = smoothed["2-consensus"].asked
    evaluations, one = sum(asked) / max(asked), typical["one member"]
    print(f"{options.model} x{options.members}, {options.backend}: {1e6 * one:.0f} us per draw of one member")
    ratio = typical["2-consensus"] / (evaluations * one)
    print(f"2-consensus: {evaluations:.2f} evaluations per draw, {ratio:.3f} times their time (bar 1.15)")
    for name in ("apart", "together"):
        print(f"soft voting {name}: {typical[name] / (options.members * one):.3f} times the members' time")


if __name__ == "__main__":
    main()
