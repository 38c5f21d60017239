"""What every registered aggregation must keep: a fixed function of one noisy input, whoever runs it."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.engine.backends import BACKENDS, installed
from smoothcert.models import Architecture, build, fingerprint
from smoothcert.models.ensembles import (
    AGGREGATIONS,
    Aggregation,
    Consensus,
    Denoised,
    EarlyExit,
    Ensemble,
    HardVoting,
    MaxMargin,
    Mirrored,
    SoftmaxVoting,
    SoftVoting,
)
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed

SHAPE, CLASSES, QUICK = (1, 8, 8), 10, Fixed(n0=100, n=400)
Make = Callable[[Sequence[nn.Module]], Aggregation]
CASES: dict[str, Make] = {
    "soft-voting": SoftVoting,
    "soft-voting, weighted": lambda members: SoftVoting(members, [4, 3, 2, 1][: len(members)]),
    "softmax-voting": SoftmaxVoting,
    "softmax-voting, weighted": lambda members: SoftmaxVoting(members, [4, 3, 2, 1][: len(members)]),
    "hard-voting": HardVoting,
    "consensus": lambda members: Consensus(members, k=2),
    "early-exit": lambda members: EarlyExit(members, [4, 3, 2, 1][: len(members)], threshold=0.4),
    "max-margin": MaxMargin,
    "denoised": lambda members: Denoised(nn.Identity(), members[0]),
    "mirrored": lambda members: Mirrored(members[0]),
}
every = pytest.mark.parametrize("make", CASES.values(), ids=CASES)
SINGLE = ("denoised", "mirrored")  # one classifier, seen otherwise
several = {name: make for name, make in CASES.items() if name not in SINGLE}
ensembles = pytest.mark.parametrize("make", several.values(), ids=several)


@pytest.fixture(scope="module")
def members() -> list[nn.Module]:
    """Untrained, of two architectures, with logits that are spread enough for members to disagree and to be sure."""
    torch.manual_seed(0)
    out: list[nn.Module] = []
    for seed, name in enumerate(("lenet", "cifar-resnet20", "lenet", "lenet")):
        net = build(Architecture(name, CLASSES, SHAPE), seed=seed).train()
        with torch.no_grad():
            for _ in range(3):
                net(torch.rand(32, *SHAPE))
            for parameter in list(net.parameters())[-2:]:
                parameter.mul_(6)
        out.append(net.eval())
    return out


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.rand(200, *SHAPE, generator=torch.Generator().manual_seed(1)) * 2 - 0.5


def test_every_aggregation_is_here(members: list[nn.Module]) -> None:
    assert {type(make(members)) for make in CASES.values()} == set(AGGREGATIONS.values())
    assert {name: kind.name for name, kind in AGGREGATIONS.items()} == {name: name for name in AGGREGATIONS}


@every
def test_scores_are_finite_and_a_copy_is_the_same(make: Make, members: list[nn.Module], x: Tensor) -> None:
    model = make(members).eval()
    with torch.no_grad():
        scores = model(x)
        assert scores.shape == (len(x), CLASSES)
        assert scores.dtype == torch.float32
        assert bool(torch.isfinite(scores).all())
        assert torch.equal(copy.deepcopy(model)(x), scores)
    assert fingerprint(copy.deepcopy(model)) == fingerprint(model) == fingerprint(model.train())
    assert not any(module.training for module in model.eval().modules())


@ensembles
def test_identical_members_are_one_member(make: Make, members: list[nn.Module], x: Tensor) -> None:
    for member in members[:2]:
        with torch.no_grad():
            scores, alone = make([member] * 4)(x), member(x)
        assert torch.equal(scores.argmax(1), alone.argmax(1))
        if isinstance(make([member] * 4), SoftVoting | Consensus):
            assert torch.equal(scores, alone)


@pytest.mark.parametrize("kind", [SoftVoting, SoftmaxVoting, HardVoting, MaxMargin])
def test_the_order_of_members_does_not_matter_where_all_are_asked(
    kind: type[Ensemble], members: list[nn.Module], x: Tensor
) -> None:
    with torch.no_grad():
        scores, other = kind(members)(x), kind(members[::-1])(x)
    assert torch.allclose(scores, other, atol=1e-6)
    assert torch.equal(scores.argmax(1), other.argmax(1))


@every
def test_a_row_is_scored_by_itself(make: Make, members: list[nn.Module], x: Tensor) -> None:
    model = make(members)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        scores = model(x)
        assert torch.allclose(model(x[order]), scores[order], atol=1e-4)
        assert torch.allclose(torch.cat([model(one) for one in x[:20].split(3)]), scores[:20], atol=1e-4)


@every
def test_gradients_reach_the_input(make: Make, members: list[nn.Module], x: Tensor) -> None:
    points = x[:30].clone().requires_grad_()
    nn.functional.cross_entropy(make(members)(points), torch.zeros(30, dtype=torch.long)).backward()
    assert points.grad is not None
    assert bool(torch.isfinite(points.grad).all())
    if not isinstance(make(members), HardVoting):
        assert bool((points.grad.flatten(1).abs().sum(1) > 0).all())


def test_fingerprints_tell_apart_what_decides(members: list[nn.Module]) -> None:
    a, b, c, d = members
    models: list[nn.Module] = [
        SoftVoting(members), SoftVoting([b, a, c, d]), SoftVoting(members, [1, 2, 3, 4]), SoftmaxVoting(members),
        HardVoting(members), MaxMargin(members), Consensus(members, k=2), Consensus(members, k=3),
        Consensus([b, a, c, d], k=2), EarlyExit(members), EarlyExit(members, [1, 2, 3, 4]),
        EarlyExit(members, threshold=0.9), EarlyExit(members, a=0.01), Denoised(nn.Identity(), a),
        Mirrored(a), SoftVoting([a, Mirrored(a)]),
    ]  # fmt: skip
    found = [fingerprint(model) for model in models]
    assert None not in found
    assert len(set(found)) == len(models)
    assert fingerprint(SoftVoting(members, [2, 2, 2, 2])) == found[0], "weights count by what they are, not how given"


REPLAYED = [
    pytest.param(make, backend, id=f"{backend}, {name}", marks=[] if backend == "eager" else [pytest.mark.slow])
    for backend in BACKENDS
    if installed(backend) and backend != "compile"  # which takes a minute; see tests/ensembles/test_adaptive.py
    for name, make in CASES.items()
    if name != "denoised" and (backend == "eager" or name in ("soft-voting", "consensus", "early-exit", "mirrored"))
]


@pytest.mark.parametrize(("make", "backend"), REPLAYED)
def test_votes_replay_in_every_backend(
    backend: str, make: Make, members: list[nn.Module], x: Tensor, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The same votes with other workers, in another order, and alone; and in float32 nearly those of eager."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    few = [members[0], members[2], members[3]]  # exports of the deep one take long
    inputs = x[:5].clamp(0, 1)

    def votes(rows: Tensor, **options: Any) -> list[Any]:
        g = Smoothed(make(few), CLASSES, Gaussian(0.25), calibration=x[:64].clamp(0, 1), **options)
        found = g.certify(rows, QUICK)
        return [c.votes for c in found]

    once = votes(inputs, backend=backend, workers=1)
    assert votes(inputs.flip(0), backend=backend, workers=2)[::-1] == once
    assert votes(inputs[2:3], backend=backend, workers=2) == once[2:3]
    eager = votes(inputs)
    moved = sum(abs(a - b) for p, q in zip(once, eager, strict=True) for a, b in zip(p, q, strict=True)) / 2
    assert moved <= (0.4 if BACKENDS[backend].int8 else 0.01) * len(inputs) * QUICK.n


def test_refusals(members: list[nn.Module]) -> None:
    for make, words in [
        (lambda: SoftVoting([]), "members of soft-voting must be at least 1, got 0"),
        (lambda: SoftVoting([torch.relu]), "members must be torch modules, got builtin_function_or_method"),
        (lambda: SoftVoting(members, [1, 2]), "weights must be one per member, got 2 for 4 members"),
        (lambda: SoftmaxVoting(members, [1, 2, -1, 1]), "weights must be finite, not negative"),
        (lambda: SoftmaxVoting(members, [0, 0, 0, 0]), "not all zero"),
        (lambda: EarlyExit(members, [1, 1, 1, float("nan")]), "weights must be finite"),
        (lambda: Consensus(members, k=5), "k must be a whole number from 1 to the 4 members, got 5"),
        (lambda: Consensus(members, k=0), "k must be a whole number"),
        (lambda: EarlyExit(members, threshold=0), "threshold must be above 0"),
        (lambda: EarlyExit(members, a=1), "a must be from 0"),
        (lambda: Denoised.of(members), "the denoiser and the classifier, got 4"),
        (lambda: Mirrored.of(members), "must be 1, the classifier, got 4"),
        (lambda: Mirrored(nn.Linear(3, 2))(torch.rand(5, 3)), r"only images \(B, C, H, W\) have a mirror image"),
        (lambda: SoftVoting([nn.Linear(3, 2), nn.Linear(3, 4)])(torch.rand(5, 3)), "answer for the same classes"),
    ]:
        with pytest.raises(InputError, match=words):
            make()  # type: ignore[no-untyped-call]


def test_both_views_of_an_image_make_a_classifier_that_no_mirror_changes(members: list[nn.Module], x: Tensor) -> None:
    net = members[0]
    both = SoftVoting([net, Mirrored(net)])
    with torch.no_grad():
        assert torch.equal(Mirrored(net)(x), net(x.flip(-1)))
        assert torch.equal(Mirrored(Mirrored(net))(x), net(x))
        assert torch.allclose(both(x), both(x.flip(-1)), atol=1e-5)
        assert not torch.equal(net(x).argmax(1), net(x.flip(-1)).argmax(1)), "else this test would show nothing"


def test_a_network_in_a_mirror_is_run_as_the_network_is(members: list[nn.Module], x: Tensor) -> None:
    """Its batch norm is folded, and a backend builds it once."""
    described = Smoothed(Mirrored(members[1]), CLASSES, Gaussian(0.25)).describe(x[:1].clamp(0, 1))["backend"]
    assert described == Smoothed(members[1], CLASSES, Gaussian(0.25)).describe(x[:1].clamp(0, 1))["backend"]
    assert described["folded"]
