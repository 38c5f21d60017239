"""The papers' hyper-parameters as data: `RECIPES` by name, such as `mnist-lenet-macer-0.25`.

A name is data set, network, method and sigma; with `-fast` at the end it is the same objective with few epochs under a
one-cycle learning rate. The `lenet` of the MNIST recipes is `lenet-small` (20/50/500), the network of the public logs
and of Zhai 2020; `--set architecture=lenet` trains the wide one, which also takes images below 16 x 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from smoothcert.core.registry import Registry
from smoothcert.noise import NOISES
from smoothcert.training.recipes.published import PUBLISHED
from smoothcert.training.recipes.recipe import Recipe
from smoothcert.training.recipes.tables import ONE_CYCLE, ROWS, Row
from smoothcert.training.recipes.writing import Each, ds2

__all__ = ["RECIPES", "Recipe", "find"]

_NETWORKS = {
    "mnist": ("lenet",),
    "mnist-binary": ("lenet",),
    "cifar10": ("resnet110", "resnet20"),
    "svhn": ("resnet110",),
    "imagenet": ("resnet50",),
}
_ARCHITECTURES = {"lenet": "lenet-small", "resnet110": "cifar-resnet110", "resnet20": "cifar-resnet20"}  # by name part
# Cohen 2019's code normalises CIFAR-10 and ImageNet; MNIST is left as it is. Departure: crops of ImageNet are shifts of
# images of one size, not resized ones.
_IMAGES: dict[str, dict[str, Any]] = {
    "mnist": {"crop": 0, "flip": False, "mean": (), "std": ()},
    "mnist-binary": {"crop": 0, "flip": False, "mean": (), "std": ()},
    "cifar10": {"crop": 4, "flip": True, "mean": (0.4914, 0.4822, 0.4465), "std": (0.2023, 0.1994, 0.2010)},
    "svhn": {"crop": 4, "flip": False, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
    "imagenet": {"crop": 16, "flip": True, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
}
# Of these a short schedule would be that of another method again.
_LONG = ("macer-150", "macer-440", "gaussian-440", "gaussian-400", "smoothadv-t10", "macer-tune")
_FAST = {
    ("mnist", "lenet"): (16, 1e-4),
    ("mnist-binary", "lenet"): (16, 1e-4),
    ("cifar10", "resnet20"): (20, 5e-4),
}  # epochs, weight decay


def _all() -> Iterator[Recipe]:
    for data, rows in ROWS.items():
        for row in rows:
            for network in (row.denoiser,) if row.denoiser else row.networks or _NETWORKS[data]:
                for number, sigma in enumerate(row.sigmas):
                    recipe = _recipe(data, network, row, number, sigma)
                    yield recipe
                    if (data, network) in _FAST and row.method not in _LONG:
                        yield _fast(recipe, *_FAST[data, network])


def _recipe(data: str, network: str, row: Row, number: int, sigma: float) -> Recipe:
    objective = _chosen(row.objective, number)
    batch = row.training["batch_size"] // (objective["draws"] if row.split else 1)
    where, radii = PUBLISHED.get((data, network, row.method), (None, {}))
    return Recipe(
        name=f"{data}-{network}-{row.method}-{sigma:.2f}",
        data=data,
        architecture=_ARCHITECTURES.get(network, network),
        sigma=sigma,
        objective=objective,
        chunk=_chunk(network, batch, objective),
        momentum=0.9,
        holdout=0.02,
        source=row.source,
        published_acr=radii.get(sigma),
        published_in=where if sigma in radii else None,
        noise=None if row.noise is None else row.noise | {NOISES[row.noise["name"]].strength_name: sigma},
        tunes=None if row.tunes is None else f"{data}-{network}-{row.tunes}-{sigma:.2f}",
        **{"nesterov": False}
        | row.training
        | {"batch_size": batch}
        | _IMAGES[data]
        | ({"mean": (), "std": ()} if row.denoiser else {}),
    )


def _fast(recipe: Recipe, epochs: int, weight_decay: float) -> Recipe:
    """Few epochs under a one-cycle; warm-ups and delays keep their share of the training, in whole epochs.

    MACER's hinge is steep: with the paper's lambda the gradient of the robustness term is many times that of the
    classification. On MNIST the long recipe has it at learning rates up to 0.001, for 60 epochs; at those of a
    one-cycle it undoes what was learnt. And the logits of a short training are large: times the paper's beta of 16 they
    saturate, and draws that are clearly wrong pull no more. Departure there: beta is 1, lambda 5/64 of the paper's,
    from a quarter of the training on.
    On CIFAR-10 lambda is the paper's, and so is the learning rate: 0.01 for MACER (Zhai 2020, appendix C), 0.1 for
    AdvMacer (Liu 2023, section 4), which is that of the others.

    Under the noise of sigma 1 on MNIST the loss rises again at the rate of the others, 0.1; there it is 0.03.

    A recipe that goes on with a trained model is short already: it goes on with one of a short schedule.

    No ACR was published for these schedules, so none stands beside them.
    """
    if recipe.tunes is not None:
        return replace(recipe, name=f"{recipe.name}-fast", tunes=f"{recipe.tunes}-fast")
    objective = dict(recipe.objective)
    for key in ("warmup", "deferred_until"):
        if key in objective:
            objective[key] = round(objective[key] * epochs / recipe.epochs)
    training = dict(ONE_CYCLE)
    if "gamma" in objective and recipe.data == "mnist":
        objective |= {"beta": 1.0, "lam": objective["lam"] * 5 / 64, "deferred_until": epochs // 4}
    elif objective["name"] == "macer":
        training["lr"] = 0.01
    if recipe.data == "mnist" and recipe.sigma >= 1:
        training["lr"] = 0.03
    chunk = _chunk("" if recipe.mean else "lenet", ONE_CYCLE["batch_size"], objective)
    return replace(
        recipe,
        name=f"{recipe.name}-fast",
        epochs=epochs,
        weight_decay=weight_decay,
        objective=objective,
        chunk=chunk,
        ds2=None if recipe.ds2 is None else ds2(epochs, recipe.ds2["draws"]),
        source=f"{recipe.source}; short one-cycle",
        published_acr=None,
        published_in=None,
        **training,
    )


def _chunk(network: str, batch: int, objective: dict[str, Any]) -> int:
    """Inputs per forward pass: at most half a batch, so that two processes can share it.

    Without batch-norm, passes of some 256 noisy copies are the fastest on a CPU and change nothing but the draws.
    """
    return min(batch // 2, 256 // objective.get("draws", 1)) if network == "lenet" else batch // 2


def _chosen(value: Any, number: int) -> Any:
    if isinstance(value, Each):
        return value.values[number]
    return {key: _chosen(entry, number) for key, entry in value.items()} if isinstance(value, dict) else value


RECIPES: Registry[Recipe] = Registry("recipe", listing="smoothcert recipes")
find = RECIPES.find
for _each in _all():
    RECIPES.add(_each)
