"""Every recipe is complete; values are compared with the papers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.datasets import load as load_data
from smoothcert.engine import Smoothed
from smoothcert.models import Architecture, build, load
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import Fixed
from smoothcert.training import DS2, Augment, noisy_accuracy
from smoothcert.training.objectives import DDN, MACER, OBJECTIVES, PGD, AdvMACER, Consistency, SmoothAdv, SmoothMix
from smoothcert.training.recipes import RECIPES, Recipe, find
from smoothcert.training.recipes.build import change, objective_of, schedule_of
from smoothcert.training.recipes.recipe import CHANNELS, IMAGES, IMAGES_PER_CORE_SECOND
from smoothcert.training.recipes.tables import ROWS
from smoothcert.workflows.train import settings_of, train_recipe


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_can_be_trained(recipe: Recipe) -> None:
    objective, settings = objective_of(recipe), settings_of(recipe, seed=0)
    assert objective.noise.strength == pytest.approx(recipe.sigma)
    assert 0 < schedule_of(recipe).factor(0.5, recipe.epochs) <= 1
    assert settings.epochs == recipe.epochs
    assert recipe.batch_size >= 2 * recipe.chunk, "two processes can share a batch"
    assert recipe.source
    assert (recipe.published_acr is None) == (recipe.published_in is None)
    assert recipe.core_hours is not None
    assert recipe.core_hours > 0
    assert recipe.tunes is None or recipe.tunes in RECIPES
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    described = objective.describe()
    for key, value in recipe.objective.items():
        stated = described[key]
        assert all(stated[k] == v for k, v in value.items()) if isinstance(value, dict) else stated == value


def test_networks_of_recipes_exist() -> None:
    for name, data in sorted({(recipe.architecture, recipe.data) for recipe in RECIPES.values()}):
        some = next(r for r in RECIPES.values() if (r.architecture, r.data) == (name, data))
        build(Architecture(name, 10, (CHANNELS[data], 32, 32), some.mean, some.std), seed=0)
        assert (name in IMAGES_PER_CORE_SECOND, data in IMAGES) == (True, True)


def test_names_are_unique_and_every_objective_has_one() -> None:
    usual = {"cifar10": 2}
    rows = sum(
        len(row.sigmas) * (1 if row.denoiser else len(row.networks) or usual.get(data, 1))
        for data, rows in ROWS.items()
        for row in rows
    )
    fast = [name for name in RECIPES if name.endswith("-fast")]
    assert len(RECIPES) == rows + len(fast)
    for data in ("mnist-lenet", "cifar10-resnet20"):
        trained = {RECIPES[name].objective["name"] for name in fast if name.startswith(data)}
        assert trained == set(OBJECTIVES) - {"denoising"}, data


def test_values_of_the_papers() -> None:
    macer = objective_of(find("cifar10-resnet110-macer-1.00"))
    assert isinstance(macer, MACER)
    assert (macer.draws, macer.lam, macer.gamma, macer.beta, macer.deferred_until) == (16, 12, 8, 16, 200)
    assert schedule_of(find("cifar10-resnet110-macer-1.00")).factor(400, 440) == pytest.approx(0.01)
    smoothadv = objective_of(find("cifar10-resnet110-smoothadv-0.25"))
    assert isinstance(smoothadv, SmoothAdv)
    assert (smoothadv.draws, smoothadv.attack, smoothadv.warmup) == (8, PGD(eps=1.0, steps=10), 10)
    advmacer = objective_of(find("svhn-resnet110-advmacer-0.50"))
    assert isinstance(advmacer, AdvMACER)
    assert (advmacer.lam, advmacer.draws, advmacer.attack) == (4, 4, PGD(eps=0.5, steps=2))
    consistency = objective_of(find("imagenet-resnet50-consistency-1.00"))
    assert isinstance(consistency, Consistency)
    assert (consistency.lam, consistency.eta, consistency.draws) == (5, 0.1, 2)
    smoothmix = objective_of(find("mnist-lenet-smoothmix-1.00"))
    assert isinstance(smoothmix, SmoothMix)
    assert (smoothmix.draws, smoothmix.attack, smoothmix.eta) == (4, PGD(None, 8, 1.0), 5)
    liu = objective_of(find("cifar10-resnet110-advmacer-1.00"))
    assert isinstance(liu, AdvMACER)
    assert (liu.draws, liu.attack) == (4, PGD(eps=2.0, steps=2))
    horvath = objective_of(find("imagenet-resnet50-consistency-0.25"))
    assert isinstance(horvath, Consistency)
    assert (horvath.lam, horvath.eta) == (10, 0.5)  # Horvath 2022, appendix G.4
    assert find("mnist-lenet-smoothadv-0.50").published_acr == 1.6872
    assert find("cifar10-resnet110-gaussian-0.25").published_acr == 0.4289


def test_values_of_the_papers_own_schedules() -> None:
    """Zhai 2020, appendix C; Liu 2021, appendix C.1; Alfarra 2022, section 4; the code of Salman 2020."""
    zhai = find("mnist-lenet-macer-440-1.00")
    assert (zhai.epochs, zhai.lr, zhai.objective["lam"], zhai.objective["draws"]) == (440, 0.01, 16, 16)
    assert (zhai.published_acr, find("mnist-lenet-gaussian-440-0.25").published_acr) == (1.520, 0.887)
    assert "deferred_until" not in zhai.objective
    sween = find("cifar10-resnet110-gaussian-400-0.50")
    assert (sween.epochs, sween.lr, sween.published_acr) == (400, 0.01, 0.573)
    assert [schedule_of(sween).factor(epoch, 400) for epoch in (149, 151, 301)] == pytest.approx([1, 0.1, 0.01])
    assert (find("svhn-resnet110-gaussian-0.25").published_acr, find("svhn-resnet110-gaussian-0.50").epochs) == (
        0.469,
        440,
    )
    steps = [
        find(f"cifar10-resnet110-smoothadv-t10-{s}").objective["attack"]["steps"] for s in ("0.25", "0.50", "1.00")
    ]
    assert steps == [10, 10, 10]
    partner, ours = (find(f"cifar10-resnet20-{m}-0.50-fast") for m in ("smoothadv-t2", "advmacer"))
    assert (partner.passes, partner.epochs) == (ours.passes, ours.epochs), "at equal cost"
    ddrs = find("cifar10-resnet18-smoothadv-200-0.12")
    assert (ddrs.architecture, ddrs.epochs, ddrs.objective["attack"]["eps"]) == ("resnet18", 200, 0.25)
    ddn = objective_of(find("imagenet-resnet50-smoothadv-best-0.25"))
    assert isinstance(ddn, SmoothAdv)
    assert ddn.attack == DDN(eps=1.0, steps=2)
    tuned = find("imagenet-resnet50-smoothadv-ds2-0.50")
    assert (tuned.tunes, tuned.epochs, tuned.objective["attack"]["eps"]) == ("imagenet-resnet50-smoothadv-0.50", 30, 1)
    assert settings_of(tuned, seed=0).ds2 == DS2(start=0, lr=1e-4, draws=1), "K = 1 from the first epoch on"
    half = [find(f"imagenet-resnet50-smoothadv-half-{s}") for s in ("0.25", "0.50", "1.00")]
    assert [(r.objective["attack"]["eps"], r.published_acr) for r in half] == [(0.5, 0.519), (0.5, 0.801), (0.5, 0.971)]
    wide = find("cifar10-dncnn-wide-denoising-adam-0.25")
    assert (wide.optimizer, wide.lr, wide.epochs, wide.mean) == ("adam", 0.001, 90, ())
    lenet5 = build(Architecture("lenet5", 10, (3, 32, 32)))
    assert sum(weights.numel() for weights in lenet5.parameters()) == 62_006


def test_a_published_number_stands_beside_what_was_published() -> None:
    """Not beside another network, another schedule or another attack."""
    for name, recipe in RECIPES.items():
        if name.endswith("-fast"):
            assert (recipe.published_acr, recipe.published_in) == (None, None), name
        if recipe.data == "mnist" and recipe.published_acr is not None:
            assert recipe.architecture == "lenet-small", "the network of the logs: 20, 50 and 500"
    net = build(Architecture(find("mnist-lenet-gaussian-0.25").architecture, 10, (1, 28, 28)))
    assert sum(weights.numel() for weights in net.parameters()) == 431_080
    # Liu 2023, section 4: SmoothAdv and AdvMacer with eps = 0.5 at every sigma; Salman 2019 has 1 from 0.5 on.
    for sigma, acr in (("0.25", 0.519), ("0.50", None), ("1.00", None)):
        recipe = find(f"imagenet-resnet50-smoothadv-{sigma}")
        assert (recipe.published_acr is None) == (recipe.objective["attack"]["eps"] != 0.5)
        assert recipe.published_acr == acr
    assert [find(f"imagenet-resnet50-advmacer-{s}").objective["attack"]["eps"] for s in ("0.25", "0.50", "1.00")] == [
        0.5
    ] * 3


def test_short_trainings_on_cifar_have_the_rates_of_their_papers() -> None:
    """Zhai 2020 trains MACER with 0.01, Liu 2023 AdvMacer with 0.1, as all others."""
    rates = {method: find(f"cifar10-resnet20-{method}-0.50-fast").lr for method in ("gaussian", "macer", "advmacer")}
    assert rates == {"gaussian": 0.1, "macer": 0.01, "advmacer": 0.1}
    long = {method: find(f"cifar10-resnet20-{method}-0.50").lr for method in rates}
    assert long == rates


def test_a_step_has_the_inputs_of_the_authors_code() -> None:
    """Jeong & Shin cut a batch of 256 into as many steps as there are draws; Zhai, Cohen and Salman do not."""
    sizes = {name: find(name).batch_size for name in RECIPES if not name.endswith("-fast")}
    assert sizes["mnist-lenet-consistency-0.25"] == sizes["cifar10-resnet110-smoothmix-0.25"] == 128
    assert sizes["mnist-lenet-smoothmix-0.25"] == sizes["mnist-lenet-smoothadv-0.25"] == 64
    assert sizes["mnist-lenet-macer-0.25"] == sizes["cifar10-resnet110-smoothadv-0.25"] == 256
    assert sizes["cifar10-resnet110-macer-0.25"] == 64


def test_strengths_per_input_are_those_of_the_paper() -> None:
    """Alfarra 2022, section 4.1: 200 epochs, 50 of them at fixed sigma, then K = 1 with lr 1e-4; n = 8 for MACER."""
    for method, draws in (("gaussian", 1), ("smoothadv", 1), ("macer", 8), ("advmacer", 8)):
        recipe = find(f"cifar10-resnet20-{method}-ds2-0.12")
        assert settings_of(recipe, seed=0).ds2 == DS2(start=50, lr=1e-4, draws=draws)
        assert recipe.epochs == 200
        fast = settings_of(find(f"mnist-lenet-{method}-ds2-0.50-fast"), seed=0).ds2
        assert fast is not None
        assert (fast.start, fast.draws, fast.lr * (16 - fast.start)) == (4, draws, pytest.approx(1e-4 * 150))
    assert settings_of(find("mnist-lenet-gaussian-0.50"), seed=0).ds2 is None
    assert "ds2" not in find("mnist-lenet-gaussian-0.50").to_json(), "older trainings stay what they were"
    changed = change(find("mnist-lenet-gaussian-ds2-0.50-fast"), ["ds2.lr=0.5", "ds2.start=1", "ds2.span=2"])
    assert settings_of(changed, seed=0).ds2 == DS2(start=1, lr=0.5, draws=1, span=2)
    with pytest.raises(InputError, match=r"has no key 'ds2\.lr'"):
        change(find("mnist-lenet-gaussian-0.50"), ["ds2.lr=0.5"])
    one, other = find("cifar10-resnet20-gaussian-ds2-0.25"), find("cifar10-resnet20-gaussian-0.25")
    assert one.core_hours is not None
    assert other.core_hours is not None
    assert one.core_hours == pytest.approx(other.core_hours * (200 + 150) / 150), "a step costs a pass"


def test_changes_of_network_and_images() -> None:
    one = find("mnist-lenet-gaussian-0.25")
    three = change(one, ["architecture=lenet-small*3"])
    assert one.core_hours is not None
    assert three.core_hours == pytest.approx(3 * one.core_hours)
    bent = change(one, ["affine=0.1", "elastic=1.5"])
    assert settings_of(bent, seed=0).augment == Augment(affine=0.1, elastic=1.5)
    assert "affine" not in one.to_json(), "older trainings stay what they were"


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0])
def test_short_recipes_keep_the_objective_apart_from_what_they_state(sigma: float) -> None:
    """All of one sigma have the same epochs and learning rate; MACER's beta and lambda are lower, and later."""
    for method in ("gaussian", "consistency", "smoothadv", "smoothmix", "macer", "advmacer"):
        long, short = (find(f"mnist-lenet-{method}-{sigma:.2f}{end}") for end in ("", "-fast"))
        hinge = "gamma" in long.objective
        assert (short.epochs, short.lr, short.schedule["name"]) == (16, 0.03 if sigma == 1 else 0.1, "one-cycle")
        times = {"deferred_until": 4, "beta": 1.0, "lam": long.objective["lam"] * 5 / 64} if hinge else {}
        times |= {"warmup": 2} if "warmup" in long.objective else {}
        assert short.objective == {**long.objective, **times}


@pytest.mark.slow
def test_short_macer_learns(tmp_path: Path) -> None:
    """With the paper's lambda at the rates of a one-cycle it ends in one class: a tenth of the images, 10.2%."""
    recipe = change(find("mnist-lenet-macer-0.25-fast"), ["architecture=lenet"])  # for images of 8 x 8
    test = load_data("digits", "test")
    train_recipe(recipe, load_data("digits", "train"), seed=0, out=tmp_path)
    model = load(tmp_path / "model.safetensors").model
    images = test.tensors(range(len(test))), torch.from_numpy(test.labels.copy())
    assert noisy_accuracy(model, images, objective_of(recipe).noise) > 0.5


def test_cost_counts_every_pass() -> None:
    assert find("mnist-lenet-gaussian-0.25").passes == 1
    assert find("mnist-lenet-macer-0.25").passes == 16
    assert find("cifar10-resnet20-smoothadv-0.25").passes == 88  # 8 draws, 10 steps of the attack and one of training
    assert find("mnist-lenet-smoothmix-0.25").passes == 16  # 4 draws: 2 steps, the clean and the mixed end
    gaussian = find("mnist-lenet-gaussian-0.25")
    assert gaussian.core_hours == pytest.approx(60_000 * 90 / 9300 / 3600)
    wide = change(gaussian, ["architecture=lenet"]).core_hours
    assert wide == pytest.approx(60_000 * 90 / 2900 / 3600)


def test_changes() -> None:
    recipe = find("mnist-lenet-smoothadv-0.25")
    assert change(recipe, []) == recipe
    changed = change(
        recipe,
        ["lr=0.5", "epochs=3", "objective.draws=2", "objective.attack.eps=0.5", "nesterov=true", "schedule=cosine"],
    )
    assert (changed.lr, changed.epochs, changed.nesterov, changed.schedule) == (0.5, 3, True, {"name": "cosine"})
    assert changed.objective == {**recipe.objective, "draws": 2, "attack": {"name": "pgd", "eps": 0.5, "steps": 10}}
    assert recipe == find("mnist-lenet-smoothadv-0.25"), "the recipe itself is as it was"
    ddn = objective_of(change(recipe, ["objective.attack=ddn", "objective.attack.init_norm=0.5"]))
    assert isinstance(ddn, SmoothAdv)
    assert ddn.attack == DDN(eps=1.0, steps=10, init_norm=0.5), "as strong as before"
    milestones = change(recipe, ["schedule=step", "schedule.milestones=[3, 5]"])
    assert schedule_of(milestones).factor(4, 9) == pytest.approx(0.1)
    assert change(find("mnist-lenet-gaussian-0.25"), ["architecture=vgg16"]).architecture == "vgg16"
    other = change(recipe, ["objective=consistency", "objective.lam=3"])
    assert other.objective == {"name": "consistency", "lam": 3}, "what another objective was told is not its own"
    assert objective_of(other) == Consistency(Gaussian(0.25), lam=3)
    attacked = change(
        find("cifar10-resnet20-consistency-0.50"),
        ["objective.attack=pgd", "objective.attack.eps=0.5", "objective.attack.steps=1"],
    )
    made = objective_of(attacked)
    assert isinstance(made, Consistency)
    assert made.attack == PGD(eps=0.5, steps=1), "an objective that had none, and may have one"
    assert attacked.passes == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr", "--set takes key=value"),
        ("rl=1", "no key 'rl'; the keys are .*lr.*objective.lam.*schedule.every"),
        ("objective.lamda=1", "no key 'objective.lamda'"),
        ("objective.noise=1", "no key"),
        ("name=x", "no key 'name'"),
        ("lr=fast", "--set lr must be a number, got 'fast'"),
        ("nesterov=1", "--set nesterov must be like false"),
        ("schedule=zigzag", "no schedule 'zigzag': the names are constant, cosine, one-cycle, step"),
        ("schedule=[1]", "no schedule"),
        ("objective.attack=pgd", "no key 'objective.attack'"),
        (f"lr={'[' * 100_000}", "--set lr must be a number"),
        ("epochs=30", "lambda would set in after 30 epochs, and there are 30"),
        ("architecture=7", "--set architecture must be like"),
    ],
)
def test_changes_that_cannot_be(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        change(find("mnist-lenet-macer-0.25"), [text])


@pytest.mark.parametrize(
    ("text", "words", "build"),
    [
        ("objective.draws=0", "draws of MACER", objective_of),
        ("sigma=-1", "sigma must be", objective_of),
        ("epochs=40.5", "whole numbers", lambda recipe: settings_of(recipe, 0)),
    ],
)
def test_values_that_make_no_sense_are_refused_when_built(
    text: str, words: str, build: Callable[[Recipe], object]
) -> None:
    recipe = change(find("mnist-lenet-macer-0.25"), [text])
    with pytest.raises(InputError, match=words):
        build(recipe)


def test_a_misspelt_name_gets_a_hint() -> None:
    with pytest.raises(InputError, match=r"did you mean .*mnist-lenet-macer-0.25"):
        find("mnist-lenet-maser-0.25")
    with pytest.raises(InputError, match="see: smoothcert recipes"):
        find("qqq")


def test_other_noises_are_those_of_the_tables() -> None:
    """Horvath 2022: l0 with 0.8 kept of two values (table 17) and 0.2 of 256 (18), l1 with half width 1 (19).

    Alfarra 2022, table 11: half widths 0.25, 0.5 and 1.
    """
    noises = {name: objective_of(find(name)).noise for name in RECIPES if find(name).noise is not None}
    assert noises["mnist-binary-lenet-ablation-0.80"] == Ablation(keep=0.8, values=2)
    assert noises["imagenet-resnet50-ablation-0.20"] == Ablation(keep=0.2, values=256)
    assert noises["cifar10-resnet20-uniform-1.00"] == Uniform(half_width=1.0)
    for data in ("cifar10-resnet110", "imagenet-resnet50", "mnist-lenet"):
        assert [noises[f"{data}-uniform-{s}"] for s in ("0.25", "0.50", "1.00")] == [
            Uniform(half_width=s) for s in (0.25, 0.5, 1.0)
        ]
    assert noises["mnist-lenet-laplace-0.50-fast"] == Laplace(scale=0.5)
    published = {name: find(name).published_acr for name in noises if find(name).published_acr is not None}
    assert published == {"cifar10-resnet20-uniform-1.00": 0.571}, "Horvath 2022, table 19; the others print no ACR"


def few_digits(count: int) -> Dataset:
    digits = load_data("digits", "train")
    return replace(digits, inputs=digits.inputs[:count], labels=digits.labels[:count])


@pytest.mark.parametrize("name", ["mnist-lenet-uniform-0.25-fast", "mnist-lenet-laplace-0.25-fast"])
def test_a_training_under_another_noise_certifies_in_its_norm(tmp_path: Path, name: str) -> None:
    data = few_digits(600)
    recipe = change(find(name), ["architecture=lenet", "epochs=6"])
    assert train_recipe(recipe, data, seed=0, out=tmp_path)
    trained = load(tmp_path / "model.safetensors")
    noise = Noise.from_description(trained.details["noise"])
    assert noise == objective_of(recipe).noise
    x = load_data("digits", "test").tensors(range(40))
    y = load_data("digits", "test").labels[:40]
    found = Smoothed(trained.model, 10, noise).certify(x, Fixed(n=200))
    assert {certificate.norm for certificate in found} == {"l1"}
    right = [c.radius for c, label in zip(found, y, strict=True) if c.label == label]
    assert len(right) > 12, "far more than the 4 of a guess"


def test_l0_from_training_to_certificate(tmp_path: Path) -> None:
    """Black and white digits: the radius counts pixels, and includes itself."""
    digits = load_data("digits", "train")
    white = np.where(digits.inputs >= 0.5 * digits.inputs.max(), np.uint8(255), np.uint8(0))
    data = replace(digits, inputs=white[:1200], labels=digits.labels[:1200])
    recipe = change(find("mnist-binary-lenet-ablation-0.80-fast"), ["architecture=lenet", "epochs=3"])
    assert train_recipe(recipe, data, seed=0, out=tmp_path)
    trained = load(tmp_path / "model.safetensors")
    x = torch.from_numpy(white[1200:1240].astype(np.float32) / 255)
    found = Smoothed(trained.model, 10, Noise.from_description(trained.details["noise"])).certify(x, Fixed(n=300))
    claims = [c for c in found if not c.abstained]
    assert max(c.radius for c in claims) >= 1
    for c in claims:
        assert c.within == f"up to l0 radius {int(c.radius)}"
        assert f"class {c.label} up to l0 radius" in str(c)
    assert "No perturbation up to the radius changes the answer" in str(found)


def test_macer_at_a_low_rate_after_gaussian(tmp_path: Path) -> None:
    """It goes on with a model, and makes radii larger than as many more epochs of Gaussian training at that rate."""
    data = few_digits(600)
    first = change(find("mnist-lenet-gaussian-0.50-fast"), ["architecture=lenet", "epochs=4"])
    train_recipe(first, data, seed=0, out=tmp_path / "first")
    init = tmp_path / "first" / "model.safetensors"
    tune = change(find("mnist-lenet-macer-tune-0.50"), ["architecture=lenet"])
    objective = objective_of(tune)
    assert isinstance(objective, MACER)
    assert (objective.beta, objective.lam, tune.lr, tune.epochs) == (1.0, 5.0, 0.01, 4)
    with pytest.raises(
        InputError, match="goes on with a trained model; give it with --init, such as one of mnist-lenet-"
    ):
        train_recipe(tune, data, seed=0, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert Recipe.from_json(tune.to_json()).tunes == "mnist-lenet-gaussian-0.50"
    train_recipe(tune, data, seed=0, out=tmp_path / "macer", init=init)
    more = change(tune, ["objective=gaussian"])
    train_recipe(more, data, seed=0, out=tmp_path / "more", init=init)
    test = load_data("digits", "test")
    x, y = test.tensors(range(200)), test.labels[:200]

    def soft_acr(model: torch.nn.Module) -> float:
        with torch.no_grad():
            noisy = x.repeat_interleave(50, 0)
            noisy = noisy + 0.5 * torch.randn(noisy.shape, generator=torch.Generator().manual_seed(0))
            votes = model(noisy).argmax(1).view(200, 50)
        shares = (votes == torch.tensor(y)[:, None]).double().mean(1).clamp(max=0.99)
        return float(torch.where(shares > 0.5, 0.5 * torch.special.ndtri(shares), 0.0).mean())

    tuned, plain, before = (
        soft_acr(load(tmp_path / n / "model.safetensors").model) for n in ("macer", "more", "first")
    )
    assert tuned > plain, (tuned, plain, before)
    assert tuned > before, (tuned, plain, before)
