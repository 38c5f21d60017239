"""A model and data that are to go together: each tells what the other leaves open, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, ReadOptions, is_numbered, with_class_names
from smoothcert.models import Checkpoint
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.sources import Classifier, DataSource, ModelSource, open_data, open_model


def open_both(
    model: ModelSource,
    data: DataSource,
    split: str = "test",
    *,
    device: str | None = None,
    num_classes: int | None = None,
    root: Path | None = None,
    read: ReadOptions | None = None,
    observer: Observer = SILENT,
) -> tuple[Classifier, Dataset]:
    """The model and the data, with inputs of the model's shape and classes of its numbers and names."""
    of_file = isinstance(model, Checkpoint) or not callable(model)
    classifier = None
    if isinstance(data, list) and of_file:  # whose shape tells one input from several, and grey from colour
        classifier = open_model(model, device=device, num_classes=num_classes, observer=observer)
    shape = None if classifier is None else classifier.input_shape
    dataset = open_data(data, split, root=root, called="--data", read=read, shape=shape)
    if classifier is None:
        example = dataset.tensors([0])
        classifier = open_model(model, device=device, num_classes=num_classes, example=example, observer=observer)
    name = data if isinstance(data, str | Path) else dataset.name
    check_fits(classifier, dataset, f"--data {name}")
    return classifier, named_as_model(dataset, classifier, observer.warned)


def check_fits(classifier: Classifier, dataset: Dataset, called: str) -> None:
    """Refuse images that the model was not made for; colours and sizes are never changed without being asked to."""
    wanted, found = classifier.input_shape, dataset.shape
    if wanted is None or wanted == found:
        return
    if len(wanted) == len(found) == 3 and {wanted[0], found[0]} == {1, 3}:
        here, there = ("grey", "colour") if found[0] == 1 else ("colour", "grey")
        raise InputError(
            f"{called} has {here} images and the model {classifier.name} takes {there} ones; convert them yourself, so "
            "that you see what is certified, or take another model"
        )
    if len(wanted) == len(found) == 3 and dataset.prepares_images:
        width, height = wanted[2], wanted[1]
        raise InputError(
            f"{called} has images of {found[2]}x{found[1]} pixels and the model {classifier.name} takes "
            f"{width}x{height}; give --resize {width}x{height}, or --resize and --crop as the model was trained with"
        )
    classifier.check_shape(found, called.removeprefix("--data "))


def named_as_model(dataset: Dataset, classifier: Classifier, warn: Callable[[str], None]) -> Dataset:
    """The data with the model's names and numbers of classes, where it has names.

    Folders are found among them by name, whatever their order. Classes that the model does not know keep their own
    numbers, and that is said: what counts as right may then be wrong.
    """
    names = tuple(classifier.details.get("class_names") or ())
    own = dataset.class_names
    if not names or own == names or (is_numbered(names) and not is_numbered(own)):
        return dataset
    if set(own) <= set(names) or (is_numbered(own) and len(own) <= len(names)):
        return with_class_names(dataset, names, said_by="the model")
    strange = next(name for name in own if name not in names)
    warn(
        f"the model knows no class {strange!r}, which {dataset.name} has: its class {own.index(strange)} is taken for "
        "it; give --class-names FILE if that is wrong"
    )
    return dataset
