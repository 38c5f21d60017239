"""DDRS moves sigma as algorithm 1 of the paper does."""

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.engine.sigma.base import CHOOSING, stream_of

K, LR = 100, 1e-4


@pytest.fixture(scope="module")
def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.Tanh(), last := nn.Linear(64, 4)).eval()
        with torch.no_grad():
            last.weight.mul_(4)  # sure enough for sigma to matter, not so sure that clamps hide it
        return made


@pytest.fixture(scope="module")
def inputs() -> Tensor:
    return torch.rand(12, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def algorithm_1(
    net: nn.Module, x: Tensor, sigma_0: float, n: int, label: int | None, stream: torch.Generator
) -> tuple[float, set[int]]:
    """OptimizeSigma as it is printed, of one input, and the classes that the steps answered.

    A softmax makes scores of logits, clamped to [0.02, 0.98] (appendix A); `label`: c_A of equation 3, or None, y_A of
    each step.
    """
    sigma, answered = torch.tensor(sigma_0, dtype=torch.float64, requires_grad=True), set()
    normal = torch.distributions.Normal(0.0, 1.0)
    for _ in range(K):
        eps = torch.randn((n, *x.shape), generator=stream)
        psi = net(x + sigma.float() * eps).softmax(dim=1).double().mean(dim=0)
        y_a = int(psi.argmax()) if label is None else label
        answered.add(int(psi.argmax()))
        e_a, e_b = psi[y_a], psi[torch.arange(len(psi)) != y_a].max()
        radius = sigma / 2 * (normal.icdf(e_a.clamp(0.02, 0.98)) - normal.icdf(e_b.clamp(0.02, 0.98)))
        (gradient,) = torch.autograd.grad(radius, sigma)
        sigma = (sigma + LR * gradient).detach().requires_grad_()
    return sigma.item(), answered


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("sigma_0", [0.12, 0.5])
def test_sigma_moves_as_in_a_fresh_implementation(net: nn.Module, inputs: Tensor, sigma_0: float, n: int) -> None:
    ours = sc.optimize_sigma(net, inputs, sigma0=sigma_0, method="ddrs", steps=K, draws=n, lr=LR, seed=5).tolist()
    assert max(abs(found - sigma_0) for found in ours) > 1e-3, "they move, a thousand times farther than is allowed"
    literal = 0
    for x, found in zip(inputs, ours, strict=True):
        stream = stream_of(5, x)
        first = torch.randn((CHOOSING, *x.shape), generator=stream)
        with torch.no_grad():
            c_a = int(net(x + sigma_0 * first).softmax(dim=1).mean(dim=0).argmax())
        state = stream.get_state()
        fixed, answered = algorithm_1(net, x, sigma_0, n, c_a, stream)
        assert found == pytest.approx(fixed, abs=1e-6)
        if answered == {c_a}:  # then equation 3 and the algorithm as it is printed are one
            stream.set_state(state)
            assert found == pytest.approx(algorithm_1(net, x, sigma_0, n, None, stream)[0], abs=1e-6)
            literal += 1
    assert literal or n == 1, "at n = 8 some inputs are answered alike by every step"


def test_a_model_sees_as_many_rows_as_there_are_inputs(inputs: Tensor) -> None:
    seen = set()

    def count(x: Tensor) -> Tensor:
        seen.add(len(x))
        return torch.stack([x.flatten(1).sum(dim=1), 18 + 0 * x.flatten(1)[:, 0]], dim=1)

    sc.optimize_sigma(count, inputs[:3], sigma0=0.5, method="ddrs", steps=2, draws=2)
    assert seen == {3, 6}
