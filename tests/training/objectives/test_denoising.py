import math

import pytest
import torch
from torch import Tensor, nn

from smoothcert import datasets
from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.models import Architecture, build, fingerprint, save
from smoothcert.models.ensembles import Denoised
from smoothcert.models.networks.dncnn import DnCNN
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import noisy_accuracy, train
from smoothcert.training.objectives import Denoising, Gaussian
from smoothcert.training.recipes import find
from smoothcert.training.recipes.build import change, objective_of

log = math.log
NOISE = GaussianNoise(0.4)


def stream() -> torch.Generator:
    return generator(0, "t", "t", 0)


def test_the_squared_error_is_per_number() -> None:
    x, y = torch.rand(5, 1, 4, 4), torch.zeros(5, dtype=torch.int64)
    noise = NOISE.draw(x, stream()) - x
    for model, wanted in ((nn.Identity(), noise.square().mean()), (nn.ZeroPad2d((-4, 4, 0, 0)), x.square().mean())):
        terms = Denoising(NOISE).terms(model, x, y, stream())
        assert float(terms["squared error"]) == pytest.approx(float(wanted), rel=1e-5)


def test_stability_is_the_cross_entropy_with_the_classifiers_own_answers(prescribed: type[nn.Module]) -> None:
    """Not with the labels, which are others here."""
    clean, denoised = [[0.7, 0.3], [0.1, 0.9]], [[0.6, 0.4], [0.5, 0.5]]
    x, y = torch.zeros(2, 4, dtype=torch.float64), torch.tensor([1, 0])
    terms = Denoising(NOISE, prescribed(clean, denoised)).terms(nn.Identity(), x, y, stream())
    assert float(terms["stability"]) == pytest.approx(-(log(0.6) + log(0.5)) / 2, rel=1e-12)


def test_the_classifier_is_copied_and_stays_as_it_is() -> None:
    classifier = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    objective = Denoising(NOISE, classifier)
    denoiser, x, y = nn.Linear(4, 4), torch.rand(64, 4), torch.zeros(64, dtype=torch.int64)
    history = train(denoiser, (x, y), objective, epochs=2, validation=(x, y))
    assert classifier.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in classifier.parameters())
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())
    assert objective.classifier is not None
    assert all(torch.equal(value, before[name]) for name, value in objective.classifier.state_dict().items())
    assert objective.at(1).classifier is objective.classifier, "copied once, not at every step"
    assert objective.describe()["classifier"] == fingerprint(classifier.eval())
    assert history[-1].accuracy == noisy_accuracy(Denoised(denoiser, classifier), (x, y), NOISE)
    assert train(denoiser, (x, y), Denoising(NOISE), epochs=1, validation=(x, y))[0].accuracy is None


@pytest.mark.slow
def test_a_denoiser_makes_a_plain_classifier_better_under_noise() -> None:
    """By the squared error less than half of the noise is left, and tuning for the classifier helps it further."""

    def split(name: str) -> tuple[Tensor, Tensor]:
        data = datasets.load("digits", name)
        return data.tensors(list(range(len(data)))), torch.from_numpy(data.labels.copy())

    data, test = split("train"), split("test")
    classifier = build(Architecture("lenet", 10, (1, 8, 8)), seed=0)
    train(classifier, data, Gaussian(GaussianNoise(1e-6)), epochs=8, lr=0.05, batch_size=32)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        denoiser = DnCNN(1, depth=4, width=16)
    history = train(denoiser, data, Denoising(NOISE), epochs=8, lr=0.2, batch_size=32)
    assert history[-1].loss < 0.5 * NOISE.sigma**2, "what the identity leaves is sigma^2"
    first = noisy_accuracy(Denoised(denoiser, classifier), test, NOISE)
    assert first > noisy_accuracy(classifier, test, NOISE)
    tuned = train(denoiser, data, Denoising(NOISE, classifier), epochs=6, lr=0.005, batch_size=32)
    assert tuned[-1].loss < tuned[0].loss
    assert noisy_accuracy(Denoised(denoiser, classifier), test, NOISE) > first


def test_a_recipe_takes_the_classifier_from_a_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> None:
    recipe, path = find("mnist-dncnn-denoising-0.50"), tmp_path_factory.mktemp("c") / "c.safetensors"
    plain = objective_of(recipe)
    assert isinstance(plain, Denoising)
    assert plain.classifier is None
    spec = Architecture("lenet", 10, (1, 28, 28))
    save(path, build(spec, seed=0), spec, {})
    tuned = objective_of(change(recipe, [f"objective.classifier={path}"]))
    assert tuned.describe()["classifier"] == fingerprint(build(spec, seed=0).eval())
    with pytest.raises(InputError, match="does not exist"):
        objective_of(change(recipe, [f"objective.classifier={path}x"]))


def test_a_function_is_refused() -> None:
    with pytest.raises(InputError, match="classifier of Denoising must be a torch module, got function"):
        Denoising(NOISE, lambda x: x)  # type: ignore[arg-type]
