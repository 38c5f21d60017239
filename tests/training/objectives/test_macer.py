import math
from statistics import NormalDist

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation, Laplace, Uniform
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import MACER, Gaussian

Phi_inv = NormalDist().inv_cdf
# Two inputs, two copies each, three classes; beta = 2 squares the odds: z_beta of (.8, .1, .1) is (.64, .01, .01)/.66.
ROWS = [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]
X, Y = torch.zeros(2, 4, dtype=torch.float64), torch.tensor([0, 2])
TOP, SECOND = (0.64 / 0.66 + 0.36 / 0.46) / 2, (0.01 / 0.66 + 0.09 / 0.46) / 2  # first input, class 0 before class 1
CLASSIFICATION = -(math.log(0.7) + math.log(0.25)) / 2


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


def test_the_terms_are_the_papers(prescribed: type[nn.Module]) -> None:
    """The first input is right and has a hinge; the second is wrong and has none; both are averaged over."""
    terms = MACER(GaussianNoise(0.5), draws=2, lam=3, gamma=8, beta=2).terms(prescribed(ROWS), X, Y, seed())
    xi = Phi_inv(TOP) - Phi_inv(SECOND)
    assert float(terms["classification"]) == pytest.approx(CLASSIFICATION, rel=1e-12)
    assert float(terms["robustness"]) == pytest.approx(3 * 0.5 / 2 * (8 - xi) / 2, rel=1e-12)
    assert xi == pytest.approx(2.40733, abs=1e-4)
    loss = MACER(GaussianNoise(0.5), draws=2, lam=3, gamma=8, beta=2).loss(prescribed(ROWS), X, Y, seed())
    assert float(loss) == pytest.approx(0.87147 + 3 * 0.25 * (8 - 2.40733) / 2, abs=1e-4)


def test_each_input_weighs_its_own_sigma(prescribed: type[nn.Module]) -> None:
    objective = MACER(GaussianNoise(0.5), draws=2, lam=1, beta=2)
    terms = objective.terms(prescribed(ROWS), X, Y, seed(), torch.tensor([0.3, 9.0]))
    xi = Phi_inv(TOP) - Phi_inv(SECOND)
    assert float(terms["robustness"]) == pytest.approx(0.3 / 2 * (8 - xi) / 2, rel=1e-6)


def test_beta_is_in_the_robustness_term_only(prescribed: type[nn.Module]) -> None:
    """z_hat is (.53, .47), class 0; at beta = 16 two of the three copies are sure of class 1, and z_beta is right."""
    rows = [[0.9, 0.1], [0.35, 0.65], [0.35, 0.65]]
    x, y = X[:1], torch.tensor([1])
    soft, sharp = (
        MACER(GaussianNoise(0.5), draws=3, lam=2, beta=beta).terms(prescribed(rows), x, y, seed()) for beta in (1, 16)
    )
    assert float(soft["classification"]) == float(sharp["classification"]) == pytest.approx(-math.log(1.4 / 3))
    assert float(soft["robustness"]) == 0
    top = (1 / (1 + 9**16) + 2 / (1 + (0.35 / 0.65) ** 16)) / 3
    assert float(sharp["robustness"]) == pytest.approx(2 * 0.5 / 2 * (8 - 2 * Phi_inv(top)), rel=1e-9)


def test_the_hinge_ends_at_gamma(prescribed: type[nn.Module]) -> None:
    """xi of 0.99 against 0.01 is 4.65: nothing is asked of it below that gamma."""
    rows = [[0.99, 0.01, 1e-12]] * 4
    x, y = X, torch.tensor([0, 0])
    for gamma, expected in [(4.6, 0.0), (4.7, 0.5 / 2 * (4.7 - 2 * Phi_inv(0.99)))]:
        objective = MACER(GaussianNoise(0.5), draws=2, lam=1, gamma=gamma, beta=1)
        assert float(objective.terms(prescribed(rows), x, y, seed())["robustness"]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("classes", [2, 10, 585])
def test_the_clamp_is_never_on_the_active_side_of_the_hinge(classes: int) -> None:
    """Where the paper's xi is below 8, nothing is clamped: the hinge is the paper's for every p and up to 585 classes.

    For a top score p the runner-up is at least (1 - p)/(classes - 1), the case with the largest xi.
    """
    noise = GaussianNoise(1.0)
    for tail in torch.logspace(-12, -0.4, 200, dtype=torch.float64).tolist():
        second = tail / (classes - 1)
        exact = max(8 - (-Phi_inv(tail) - Phi_inv(second)), 0) if 1 - tail > second else None
        if exact is not None:
            ours = 8 - 2 * float(noise.soft_radius(*torch.tensor([1 - tail, second], dtype=torch.float64)))
            assert max(ours, 0) == pytest.approx(exact, abs=1e-6)


def test_one_draw_without_robustness_is_the_gaussian_objective() -> None:
    x, y = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    losses = [
        objective.loss(model, x, y, seed(), strength)
        for objective in (MACER(GaussianNoise(0.5), draws=1, lam=0), Gaussian(GaussianNoise(0.5)))
        for strength in (None, torch.arange(1, 7) / 6)
    ]
    assert torch.equal(losses[0], losses[2])
    assert torch.equal(losses[1], losses[3])
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses[::2]]
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("high", [1e4, 30.0])
def test_saturated_scores_have_finite_gradients(high: float) -> None:
    """Right, wrong and split copies at scores of +-high."""
    values = high * torch.tensor([[1.0, -1, -1], [1, -1, -1], [1, -1, -1], [-1, 1, -1], [-1, 1, -1], [-1, 1, -1]])
    scores = values.requires_grad_()
    x, y = torch.zeros(3, 4), torch.tensor([0, 0, 0])
    loss = MACER(GaussianNoise(0.5), draws=2).loss(lambda _: scores, x, y, seed())  # type: ignore[arg-type]
    (gradient,) = torch.autograd.grad(loss, scores)
    assert math.isfinite(loss.item())
    assert bool(torch.isfinite(gradient).all())
    assert loss.item() >= 2 * high / 3, "the wrong input costs 2 high, or log 2 less than that"


def test_lambda_can_wait(prescribed: type[nn.Module]) -> None:
    objective = MACER(GaussianNoise(0.5), draws=2, beta=1, deferred_until=200)
    loss = {epoch: float(objective.at(epoch).loss(prescribed(ROWS), X, Y, seed())) for epoch in (0, 199.9, 200, 300)}
    whole = float(objective.loss(prescribed(ROWS), X, Y, seed()))
    assert loss[0] == loss[199.9] == pytest.approx(CLASSIFICATION)
    assert loss[200] == loss[300] == whole > CLASSIFICATION
    assert objective.at(3).at(250) == objective, "a later epoch is asked of an earlier one"


def test_other_noises_bring_their_own_radius(prescribed: type[nn.Module]) -> None:
    """Uniform: radius half_width (p - q), and gamma counts halves of the width."""
    terms = MACER(Uniform(0.4), draws=2, lam=1, gamma=3, beta=2).terms(prescribed(ROWS), X, Y, seed())
    assert float(terms["robustness"]) == pytest.approx((3 * 0.2 - 0.4 * (TOP - SECOND)) / 2, rel=1e-6)
    for noise in [Laplace(1.0), Ablation(keep=0.5), GaussianNoise(0.5, norm="linf")]:
        with pytest.raises(InputError, match="noise of MACER must have a differentiable l2 or l1 radius"):
            MACER(noise)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"draws": 0}, "draws of MACER must be an integer of at least 1, got 0"), ({"lam": -1.0}, "lam of MACER must be"),
     ({"beta": math.inf}, "beta of MACER must be a finite number"), ({"gamma": math.nan}, "gamma of MACER must be")],
)  # fmt: skip
def test_what_cannot_work_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MACER(GaussianNoise(0.5), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("strength", [[1.0], [-1.0, 1.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_strengths_that_are_none_are_refused(strength: list[float], prescribed: type[nn.Module]) -> None:
    with pytest.raises(
        InputError, match=r"strength must be (one number per input, \(2,\)|finite numbers of at least 0)"
    ):
        MACER(GaussianNoise(0.5), draws=2).loss(prescribed(ROWS), X, Y, seed(), torch.tensor(strength))


def test_defaults_are_the_papers_and_data_is_input_major() -> None:
    objective = MACER(noise=GaussianNoise(0.25))
    assert (objective.draws, objective.lam, objective.gamma, objective.beta) == (16, 12, 8, 16)
    seen: list[Tensor] = []

    def model(x: Tensor) -> Tensor:
        seen.append(x)
        return x[:, :3]

    x = torch.arange(3.0)[:, None].repeat(1, 4)
    objective.terms(model, x, torch.tensor([0, 1, 2]), seed(), torch.tensor([1e-6, 1e-3, 1e-6]))  # type: ignore[arg-type]
    off = (seen[0].view(3, 16, 4) - x[:, None]).abs().amax(dim=(1, 2))
    assert bool((off < torch.tensor([1e-5, 1e-2, 1e-5])).all())
    assert float(off[1]) > 1e-3
