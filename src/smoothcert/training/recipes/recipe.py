"""A recipe: everything that decides a training, apart from the seed. Data only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

IMAGES = {"mnist": 60_000, "mnist-binary": 60_000, "cifar10": 50_000, "svhn": 73_257, "imagenet": 1_281_167}
"""How many images there are to train on."""
CHANNELS = {"mnist": 1, "mnist-binary": 1, "cifar10": 3, "svhn": 3, "imagenet": 3}
"""Of one image."""

# Images per second that one Ice Lake core takes forward and back, in float32. LeNet and ResNet-20 are measured there;
# `lenet-small` took a third of the processor time of LeNet beside it (3.2 times the images), and LeNet-5 is taken for
# as fast; the others follow from their multiplications per image, against the 0.041 billion of ResNet-20.
IMAGES_PER_CORE_SECOND = {
    "lenet": 2900.0,
    "lenet-small": 9300.0,
    "lenet5": 9300.0,
    "cifar-resnet20": 255.0,
    "cifar-resnet26": 190.0,
    "cifar-resnet32": 150.0,
    "cifar-resnet110": 41.0,
    "alexnet": 690.0,
    "densenet100": 36.0,
    "vgg16": 33.0,
    "vgg19": 26.0,
    "resnet50": 2.5,
    "dncnn": 24.0,
    "dncnn-wide": 6.0,
    "resnet18": 280.0,
}
IMAGES_OF_IMAGENET_PER_CORE_SECOND = {"resnet18": 5.7, "resnet34": 2.8}
"""Of networks that also take smaller images."""


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters as a paper gives them. `objective` and `schedule` have a name and the fields of that class."""

    name: str
    data: str
    architecture: str
    sigma: float  # of Gaussian noise; of another, its strength: half width, scale, share kept
    objective: Mapping[str, Any]
    schedule: Mapping[str, Any]
    epochs: int
    lr: float
    batch_size: int
    chunk: int  # inputs per forward pass: the memory of a step, and the most processes that can share a batch
    momentum: float
    nesterov: bool
    weight_decay: float
    crop: int  # pixels
    flip: bool
    mean: tuple[float, ...]  # of raw pixels, per channel; with std, the first layer of the model
    std: tuple[float, ...]
    holdout: float  # share of the training data that is kept for validation
    source: str
    published_acr: float | None = None  # of this network, objective and schedule; None: nobody published one
    published_in: str | None = None
    ds2: Mapping[str, Any] | None = None  # a strength of the noise for each input: the fields of that class
    optimizer: str = "sgd"  # or one of `OPTIMIZERS`, to which momentum does not apply
    noise: Mapping[str, Any] | None = None  # a name and the fields of that class; None: Gaussian, of `sigma`
    ema: float | None = None  # decay of a moving average of the weights
    affine: float = 0.0  # how far the entries of a random linear map of the image may be from the identity
    elastic: float = 0.0  # pixels that points of the image may be moved by
    mixed_precision: bool | None = None  # bfloat16; None: on a GPU that has it
    discard: Mapping[str, Any] | None = None  # hard inputs are left out: the fields of that class
    tunes: str | None = None  # the recipe whose model it goes on with

    @property
    def passes(self) -> int:
        """Forward and backward passes per image and epoch: noisy copies, and as many again per step of an attack."""
        draws = self.objective.get("draws", 1)
        attack = self.objective.get("attack") or {"steps": self.objective.get("steps", 0)}
        ends = (
            2 if self.objective["name"] in ("stability", "smoothmix", "catrs") else 1
        )  # clean and noisy, or mixed, or moved
        return int(draws) * (int(attack["steps"]) + ends)

    @property
    def rate(self) -> float | None:
        """About how many images per second one core takes forward and back; None where nobody knows."""
        large = IMAGES_OF_IMAGENET_PER_CORE_SECOND if self.data == "imagenet" else {}
        name, _, copies = self.architecture.partition("*")
        rate = (IMAGES_PER_CORE_SECOND | large).get(name)
        return rate / int(copies) if rate is not None and copies.isdecimal() and int(copies) else rate

    @property
    def core_hours(self) -> float | None:
        """About how long one core of a server takes for all of it, or None where the data or network is unknown."""
        images = IMAGES.get(self.data)
        return None if images is None else self.core_hours_on(images)

    def core_hours_on(self, images: int) -> float | None:
        """The same, with so many images to train on."""
        rate = self.rate
        if rate is None:
            return None
        passes = self.epochs * self.passes
        if self.ds2 is not None:
            passes += max(0, self.epochs - self.ds2["start"]) * self.ds2["draws"]
        return images * passes / rate / 3600

    def to_json(self) -> dict[str, Any]:
        """All fields, JSON-able; those that few recipes have, where they have them."""
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(self).items()}
        rare = {field.name: field.default for field in dataclasses.fields(self)[-9:]}
        return {key: value for key, value in values.items() if key not in rare or value != rare[key]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        """What `to_json` wrote, as a recipe again."""
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**fields)
