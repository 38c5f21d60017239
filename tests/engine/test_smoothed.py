import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import SklearnClassifier, Smoothed
from smoothcert.noise import Ablation, Gaussian
from smoothcert.procedures import Fixed, Predict, Scope
from smoothcert.stats import Hoeffding

QUICK = Fixed(n0=20, n=200)


def linear(x: Tensor) -> Tensor:
    return torch.stack([x.flatten(1).sum(1), -x.flatten(1).sum(1)], dim=1)


def test_shapes_of_inputs() -> None:
    g = Smoothed(linear, 2, Gaussian(0.5))
    assert len(g.certify(torch.rand(4), QUICK)) == 1
    assert len(g.certify(torch.rand(3, 4), QUICK)) == 3
    assert len(g.certify(torch.rand(2, 1, 4, 4), QUICK)) == 2
    assert len(g.certify(np.random.default_rng(0).random((2, 4)), QUICK)) == 2
    assert len(Smoothed(linear, 2, Gaussian(0.5), input_shape=(4, 4)).certify(torch.rand(4, 4), QUICK)) == 1
    grey = Smoothed(linear, 2, Gaussian(0.5), input_shape=(4, 4))
    assert len(grey.certify(torch.rand(5, 4, 4), QUICK)) == 5
    image = Smoothed(linear, 2, Gaussian(0.5), input_shape=(5, 4, 4))
    assert len(image.certify(torch.rand(5, 4, 4), QUICK)) == 1


def test_certificate_says_what_it_is_about() -> None:
    model = nn.Linear(4, 3)
    certificate = Smoothed(model, 3, Gaussian(0.5), seed=7).certify(torch.rand(4), QUICK)[0]
    assert certificate.noise == {"name": "gaussian", "sigma": 0.5, "norm": "l2", "dim": 4, "arithmetic": "float32"}
    assert certificate.classifier["kind"] == "Linear"
    assert len(certificate.classifier["fingerprint"]) == 64
    assert (certificate.seed, certificate.scope, certificate.norm) == (7, Scope.FIXED, "l2")
    assert certificate.procedure["n"] == 200
    assert len(certificate.input_id) == 32


def test_other_weights_have_another_fingerprint() -> None:
    model = nn.Linear(4, 3)
    g = Smoothed(model, 3, Gaussian(0.5))
    before = g.certify(torch.rand(4), QUICK)[0].classifier["fingerprint"]
    with torch.no_grad():
        model.weight[0, 0] += 1
    assert g.certify(torch.rand(4), QUICK)[0].classifier["fingerprint"] != before


def test_noises_of_their_own_change_the_scope() -> None:
    """Trap 4: a sigma per input is another classifier at every input, and the certificate says so."""
    g = Smoothed(linear, 2, Gaussian(0.5))
    x = torch.full((2, 4), 0.3)
    noises = [Gaussian(0.5).with_strength(s) for s in (0.25, 0.5)]
    certificates = [c for _, c in sorted(g.certifying(x, QUICK, noises=noises), key=lambda pair: pair[0])]
    assert [c.noise["sigma"] for c in certificates] == [0.25, 0.5]
    assert {c.scope for c in certificates} == {Scope.OWN}
    with pytest.raises(InputError, match="one per input, got 1 for 2"):
        list(g.certifying(x, QUICK, noises=noises[:1]))


MODES: set[bool] = set()


class Modes(nn.Module):
    """Notes in which mode it was called; has a frozen batch-norm that must stay frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        MODES.update({self.training, self.norm.training, self.drop.training})
        result: Tensor = self.out(self.drop(self.norm(x)))
        return result


def test_evaluation_mode_inside_and_the_model_is_untouched() -> None:
    """Trap 2, also after an exception."""
    model = Modes().train()
    model.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Smoothed(model, 2, Gaussian(0.5)).certify(torch.rand(3, 4), QUICK)
    assert True not in MODES
    with pytest.raises(InputError, match="scores of shape"):
        Smoothed(model, 3, Gaussian(0.5)).certify(torch.rand(3, 4), QUICK)
    assert (model.training, model.norm.training, model.drop.training) == (True, False, True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_what_is_sampled_cannot_change_on_the_way() -> None:
    """The caller changes modes, weights and inputs between two answers: the certificates do not care."""
    model = nn.Linear(4, 2)
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    once = Smoothed(model, 2, Gaussian(0.5)).certify(x, QUICK)
    mine, answers = x.clone(), []
    for row, certificate in Smoothed(model, 2, Gaussian(0.5)).certifying(mine, QUICK):
        answers.append((row, certificate))
        model.train()
        with torch.no_grad():
            model.weight.add_(1.0)
            mine.fill_(-3.0)
    assert [certificate for _, certificate in sorted(answers, key=lambda pair: pair[0])] == once
    g = Smoothed(model, 2, Gaussian(0.5))
    with pytest.raises(AttributeError):
        g.model = nn.Linear(4, 2)  # type: ignore[misc]


class Stateful(nn.Module):
    """Keeps a feature on itself in the middle of forward, as hooks and skip connections do."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(64, 64)
        self.first = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.first = x[:, :1]
        later = self.wide(self.wide(x))
        return torch.cat([self.first, -self.first], dim=1) + 0 * later[:, :2]


def test_workers_do_not_mix_inputs_through_a_stateful_module() -> None:
    """With one module shared by threads, an input near the boundary got the votes of a safe one."""
    x = torch.zeros(12, 64)
    x[:, 0] = torch.tensor([0.05, 3.0]).repeat(6)
    g = Smoothed(Stateful(), 2, Gaussian(0.25), workers=4)
    for margin, certificate in zip(x[:, 0].tolist(), g.certify(x, Fixed(n0=100, n=1000)), strict=True):
        assert certificate.radius <= margin
    one = Smoothed(Stateful(), 2, Gaussian(0.25), workers=1).certify(x, Fixed(n0=100, n=1000))
    assert [c.votes for c in one] == [c.votes for c in g.certify(x, Fixed(n0=100, n=1000))]


def test_a_function_that_hides_dropout_or_batch_statistics_is_refused() -> None:
    dropout, norm = nn.Dropout(0.5).train(), nn.BatchNorm1d(4).train()
    for hidden in (dropout, norm):
        with pytest.raises(InputError, match="not a fixed function"):
            Smoothed(lambda x, hidden=hidden: linear(hidden(x)[:, :2]) * 3, 2, Gaussian(0.5)).certify(  # type: ignore[misc]
                torch.rand(4), QUICK
            )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: linear(x)[:, :1], r"\(batch, num_classes\) = \(128, 2\), got \(128, 1\)"),
        (lambda x: linear(x).tolist(), "got list"),
        (lambda x: linear(x) / 0, "not finite"),
        (lambda x: linear(x) * torch.tensor([1.0, float("nan")]), "not finite"),
    ],
)
def test_bad_models_are_refused(model: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Smoothed(model, 2, Gaussian(0.5)).certify(torch.rand(4), QUICK)  # type: ignore[arg-type]


def test_a_model_that_breaks_later_is_refused_too() -> None:
    calls = [0]

    def breaks(x: Tensor) -> Tensor:
        calls[0] += 1
        return linear(x) * (float("inf") if calls[0] == 9 else 1.0)

    with pytest.raises(InputError, match="not finite"):
        Smoothed(breaks, 2, Gaussian(0.5)).certify(torch.rand(4), Fixed(n0=20, n=1000))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.tensor([0.1, float("nan")]), "finite"),
        (torch.tensor([0.1, float("inf")]), "finite"),
        (torch.tensor([0.1, 1.5]), r"must lie in \[0, 1\], got values from 0.1 to 1.5"),
        (torch.tensor([[0, 255]], dtype=torch.uint8), "divide 8-bit images by 255"),
        (torch.empty(0, 3), "at least one number"),
        (torch.tensor(0.3), "at least one number"),
    ],
)
def test_bad_inputs_are_refused(x: Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Smoothed(linear, 2, Gaussian(0.5), input_range=(0, 1)).certify(x, QUICK)


def test_bad_arguments_are_refused() -> None:
    for arguments, words in [
        ({"model": 3}, "model must be callable"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"noise": 0.25}, "noise must be a noise"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
    ]:
        with pytest.raises(InputError, match=words):
            Smoothed(**{"model": linear, "num_classes": 2, "noise": Gaussian(0.5), **arguments})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="multiples of 1/255"):
        Smoothed(linear, 2, Ablation(keep=0.8)).certify(torch.tensor([0.1234, 0.5]), QUICK)


def test_extreme_scores_do_not_overflow_the_soft_sums() -> None:
    """beta times a score beyond float64: each row must count as it is, or be refused, never as nothing."""

    def extreme(x: Tensor) -> Tensor:
        side = x[:, 0].double() > 0
        return torch.stack([(~side).double() * 0.5, side.double() * 1e300], dim=1)

    procedure = Fixed(n0=20, n=1280, bound=Hoeffding(inverse_temperature=1e10), runner_up=True)
    certificate = Smoothed(extreme, 2, Gaussian(0.5)).certify(torch.zeros(4), procedure)[0]
    assert certificate.abstained
    tally = certificate.tallies["bound"]
    assert tally.score_sums == tuple(votes * 2**20 for votes in tally.votes)


def test_counts_beyond_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are fetched before they can overflow: the same tally whatever the number of blocks between two fetches."""
    from smoothcert.engine import input_progress

    g = Smoothed(linear, 2, Gaussian(0.5))
    procedure = Fixed(n0=20, n=2000, bound=Hoeffding())
    once = g.certify(torch.zeros(4), procedure)[0]
    monkeypatch.setattr(input_progress, "FLUSH", 3)
    assert g.certify(torch.zeros(4), procedure)[0] == once
    assert 2**40 * 128 * 4096 < 2**63, "the squares of a full fetch fit"


@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_models_that_work_in_place_or_mask_a_class(batch_size: int | None) -> None:
    def masked(x: Tensor) -> Tensor:
        return torch.cat([linear(x.sub_(0.1)), torch.full((len(x), 1), -1e9)], dim=1)

    assert Smoothed(masked, 3, Gaussian(0.5), batch_size=batch_size).certify(torch.ones(4), QUICK)[0].label == 0
    for hidden in (nn.Dropout(0.5).train(), nn.BatchNorm1d(4).train()):
        if batch_size is not None and isinstance(hidden, nn.BatchNorm1d):
            continue  # it refuses single rows by itself
        with pytest.raises(InputError, match="not a fixed function"):
            Smoothed(lambda x, h=hidden: masked(h(x)), 3, Gaussian(0.5), batch_size=batch_size).certify(  # type: ignore[misc]
                torch.rand(4), QUICK
            )


def test_soft_and_hard_are_different_classifiers_and_say_so() -> None:
    """A class that barely wins every draw: unanimous for the hard vote, undecided for the soft score."""
    g = Smoothed(lambda x: torch.tensor([[0.1, 0.0]]).expand(len(x), 2), 2, Gaussian(0.5))
    (hard,) = g.certify(torch.rand(4), Fixed(n=1000))
    (soft,) = g.certify(torch.rand(4), Fixed(n=1000, bound=Hoeffding()))
    (sharp,) = g.certify(torch.rand(4), Fixed(n=1000, bound=Hoeffding(inverse_temperature=100.0)))
    assert (hard.label, soft.abstained, sharp.label) == (0, True, 0)
    assert soft.procedure["bound"] == {"name": "hoeffding", "inverse_temperature": 1.0}


def test_prediction_and_certificate_agree() -> None:
    g = Smoothed(linear, 2, Gaussian(0.5))
    (prediction,) = g.predict(torch.full((4,), 0.5), Predict(n=1000))
    (certificate,) = g.certify(torch.full((4,), 0.5), QUICK)
    assert prediction.label == certificate.label == 0
    assert g.predict(torch.zeros(4), Predict(n=1000))[0].abstained


class Threshold:
    """A scikit-learn-like classifier with class names and `predict` only."""

    classes_ = np.array(["high", "low"])

    def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.where(rows[:, 0] > 0.5, "high", "low")


def test_sklearn_adapter_without_probabilities() -> None:
    model = SklearnClassifier(Threshold())
    certificates = Smoothed(model, model.num_classes, Gaussian(0.1)).certify(torch.tensor([[0.9, 0], [0.1, 0]]), QUICK)
    assert [c.label for c in certificates] == [0, 1]
    assert certificates[0].classifier["fingerprint"] == model.fingerprint
    model.classifier.extra = 1
    assert certificates[0].classifier["fingerprint"] != model.fingerprint, "fitted again"
    with pytest.raises(InputError, match="fit it first"):
        SklearnClassifier(object())


MEMORY = """
import resource, sys, torch
from smoothcert.procedures import Fixed
from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
g = Smoothed(lambda x: x[:, 0, :1, :2].flatten(1), 2, Gaussian(0.5), workers=2)
g.certify(torch.rand(1, 3, 224, 224), Fixed(n0=10, n=int(sys.argv[1])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_draws() -> None:
    """One 3x224x224 input: a batch is 77 MB, 10_000 copies would be 6 GB."""
    peak = {
        n: int(subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, check=True).stdout) / 1024
        for n in (1_000, 10_000)
    }
    assert peak[10_000] - peak[1_000] < 160


class SeesTheBatch(nn.Module):
    """Answers by the mean of all rows, which are copies of one input: almost without noise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = torch.sign(x.mean() - 0.45).expand(len(x))
        return torch.stack([-side, side], dim=1)


class SmallDropout(nn.Module):
    """Random scores, all of them tiny."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = 1e-4 * self.layer(nn.functional.dropout(x, training=True))
        return scores


class StaysInTraining(nn.Module):
    """As code with frozen norms does it: train() is overridden, and eval() calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def train(self, mode: bool = True) -> "StaysInTraining":
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(x)
        return scores


@pytest.mark.parametrize(
    ("model", "classes", "sentence"),
    [
        (SeesTheBatch(), 2, "not a fixed function"),
        (SmallDropout(), 3, "not a fixed function"),
        (StaysInTraining(), 3, "training mode"),
    ],
)
def test_what_is_no_function_of_one_input_is_refused(model: nn.Module, classes: int, sentence: str) -> None:
    for noise in (Gaussian(0.25), Gaussian(0.25, grid=1 / 255)):
        with pytest.raises(InputError, match=sentence):
            Smoothed(model, classes, noise).certify(torch.full((1, 4), 0.4), Fixed(n=100))


def test_a_parametrised_convolution_before_batch_norm_is_certified() -> None:
    layer = nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 4, 3))
    model = nn.Sequential(layer, nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 3))
    (certificate,) = Smoothed(model, 3, Gaussian(0.25)).certify(torch.zeros(1, 1, 8, 8), Fixed(n=100))
    assert certificate.draws == 200
