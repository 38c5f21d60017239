"""What ensembles cost: python benchmarks/ensembles.py [--model cifar-resnet20] [--members 10] [--backend openvino]

K-consensus: seconds per draw against (evaluations per draw) x (seconds per draw of one member), end to end with the
same backend and workers; the bar is 1.15. Soft voting with members apart, as it is run, against one graph of all of
them. And members one after another against members stacked into one network (torch.vmap), bare and in eager. Members
are copies of one random network, moved apart until about nine of ten draws find the first two agreeing.

Runs are interleaved: each round takes every way once, consensus between two runs of one member. Ratios are within a
round; printed are their median and their range, of seconds on the clock and of seconds of all cores: the second does
not mind what else the machine does. `--n 100000 --inputs 1` for as many draws as a certificate has.
"""

import argparse
import copy
import time
from collections.abc import Callable
from statistics import mean, median

import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.engine.backends import installed
from smoothcert.models import Architecture, build

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


def seconds_per_draw(g: sc.Smoothed, x: Tensor, n: int) -> tuple[float, float]:
    """End to end, on the clock and of all cores; preparation is done before."""
    begin = time.perf_counter(), time.process_time()
    g.certify(x, sc.Fixed(n0=100, n=n))
    draws = len(x) * (n + 100)
    return (time.perf_counter() - begin[0]) / draws, (time.process_time() - begin[1]) / draws


def stacked(nets: list[nn.Module]) -> Callable[[Tensor], Tensor]:
    """All members as one batched network: the mean of their logits."""
    weights, buffers = torch.func.stack_module_state(nets)
    shell = copy.deepcopy(nets[0]).to("meta")

    def one(w: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(shell, (w, b), (x.clone(),))

    return lambda x: torch.vmap(one, (0, 0, None))(weights, buffers, x).mean(0)


@torch.inference_mode()
def stacking(nets: list[nn.Module], x: Tensor, repeats: int) -> list[float]:
    """Core seconds of one call with members one after another, over those of members stacked; in one thread."""
    apart, together = sc.SoftVoting(nets), stacked(nets)
    torch.set_num_threads(1)
    batch = x[:1] + 0.25 * torch.randn(128, *x.shape[1:])
    assert torch.allclose(apart(batch), together(batch), atol=1e-3)
    taken: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for way, run in enumerate((apart, together)):
            begin = time.process_time()
            run(batch)
            taken[way].append(time.process_time() - begin)
    return [a / b for a, b in zip(taken[0][1:], taken[1][1:], strict=True)]


def ranged(ratios: list[float]) -> str:
    """The median, and how far they reach."""
    return f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SPECS, default="cifar-resnet20")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--backend", default="openvino" if installed("openvino") else "eager")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--n", type=int, default=5_000, help="draws per input; of voting a tenth")
    parser.add_argument("--inputs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    spec = SPECS[options.model]
    x = torch.rand(options.inputs, *spec.input_shape)
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
    order = ("one member", "2-consensus", "one member", "apart", "together")
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in ("2-consensus", "apart", "together")}
    ones = list[float]()
    for _ in range(options.repeats):
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for name in order:
            n = options.n // (10 if name in ("apart", "together") else 1)
            taken[name].append(seconds_per_draw(smoothed[name], x, n))
        clock, cores = (mean(pair) for pair in zip(*taken["one member"], strict=True))
        ones.append(clock)
        calls = sc.MemberCalls()
        smoothed["2-consensus"].certify(x, sc.Fixed(n0=100, n=1000), member_calls=calls)
        evaluations = {"2-consensus": sum(calls.per_member) / max(calls.per_member)}
        for name, found in ratios.items():
            count = evaluations.get(name, options.members)
            found.append((taken[name][0][0] / (count * clock), taken[name][0][1] / (count * cores)))
    print(f"{options.model} x{options.members}, {options.backend}, n = {options.n}, {len(x)} inputs")
    print(f"one member: {1e6 * median(ones):.0f} us per draw")
    print(f"2-consensus: {evaluations['2-consensus']:.2f} evaluations per draw; the bar is 1.15 times their time")
    for name, found in ratios.items():
        on_clock, of_cores = (ranged(list(kind)) for kind in zip(*found, strict=True))
        print(f"{name}: {on_clock} times the time of its evaluations, of cores {of_cores}")
    print(f"stacked against one after another, eager: {ranged(stacking(nets, x, options.repeats))} times as fast")


if __name__ == "__main__":
    main()
