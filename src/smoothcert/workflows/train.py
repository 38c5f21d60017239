"""Train by a recipe into a folder, here and now, going on where an earlier attempt stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

import smoothcert
from smoothcert import models
from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.datasets import Dataset
from smoothcert.models import Architecture
from smoothcert.training import DS2, Augment, Discard, Epoch, Folder, Group, Session, Settings, hold_out, run
from smoothcert.training.averaging import averaged
from smoothcert.training.events import write_events
from smoothcert.training.recipes import RECIPES, Recipe
from smoothcert.training.recipes.build import made, objective_of, optimizer_of, schedule_of
from smoothcert.training.recipes.recipe import CHANNELS
from smoothcert.workflows.observer import LOG, SILENT, LogFile, Observer, Observers, task
from smoothcert.workflows.sources import using_out


def training_config(recipe: Recipe, data: Dataset, *, seed: int, device: str) -> dict[str, Any]:
    """Everything that decides the weights: two trainings with equal configurations end with equal weights."""
    return {
        "format": 1,
        "recipe": recipe.to_json(),
        "data": {"name": data.name, "split": data.split, "size": len(data), "fingerprint": data.fingerprint},
        "seed": seed,
        "device": torch.device(device).type,
    }


def architecture_of(recipe: Recipe, data: Dataset) -> Architecture:
    """The network for these images; other images than those of the recipe will do if they have as many channels."""
    data.require_labels("training")
    shape = data.inputs.shape[1:]
    channels = CHANNELS.get(recipe.data, shape[0])  # of data from outside nobody knows
    if len(shape) != 3 or shape[0] != channels:
        raise InputError(
            f"the recipe {recipe.name} is for images with {channels} channel(s), as {recipe.data} has, "
            f"but {data.name} has inputs of shape {shape}; choose another recipe"
        )
    return Architecture(recipe.architecture, data.num_classes, shape, recipe.mean, recipe.std)


def settings_of(recipe: Recipe, seed: int) -> Settings:
    """How the recipe trains."""
    return Settings(
        epochs=recipe.epochs,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        batch_size=recipe.batch_size,
        chunk=recipe.chunk,
        schedule=schedule_of(recipe),
        augment=Augment(recipe.crop, recipe.flip, recipe.affine, recipe.elastic),
        mixed_precision=recipe.mixed_precision,
        seed=seed,
        ds2=None if recipe.ds2 is None else made(DS2, recipe.ds2),
        discard=None if recipe.discard is None else made(Discard, recipe.discard),
        ema=recipe.ema,
    )


def train_recipe(
    recipe: Recipe,
    data: Dataset,
    *,
    seed: int,
    out: Path,
    device: str = "cpu",
    save_every: float = 120.0,
    init: Path | None = None,
    keep_every: int | None = None,
    routes: Mapping[str, Any] | None = None,
    finish: Callable[[torch.nn.Module], Mapping[str, Any]] | None = None,
    observer: Observer = SILENT,
) -> bool:
    """Train on `data` into the folder `out`: log, state and, when done, the model. False if that was done before.

    Another training in the folder is refused. In a group of processes the first one writes, and all read the folder.
    How it goes is told to the observer, and to the file progress.log of the folder; and to TensorBoard, in the folder
    `events`, where it is installed.

    Args:
        recipe, data, seed, out, device: what is trained, and where.
        save_every: seconds between states, besides after every epoch.
        init: a checkpoint of the same network, whose weights are the first ones.
        keep_every: the model after every so many epochs is kept, as epoch-0010.safetensors.
        routes: of a router: what its classes stand for, and by which models its labels were made.
        finish: may change the trained model before it is written; what it gives, JSON-able, is written beside it.
        observer: hears how it goes.
    """
    if keep_every is not None and keep_every < 1:
        raise InputError(f"--keep-every must be at least 1, got {keep_every}")
    _refuse_nothing_to_tune(recipe, init)
    architecture, objective = architecture_of(recipe, data), objective_of(recipe, device)
    model = models.build(architecture, seed=seed).to(device)
    config = training_config(recipe, data, seed=seed, device=device)
    if routes is not None:
        config["routes"] = dict(routes)
    if init is not None:
        config["init"] = _take_weights(model, architecture, init)
    rows, held = hold_out(len(data), recipe.holdout)
    validation = _tensors(data, held, device) if held else None
    # All that may be refused is refused before anything is written.
    session = Session(
        model, _tensors(data, rows, device), objective, settings_of(recipe, seed), validation, Folder(out).state,
        optimizer_of(recipe),
    )  # fmt: skip
    group, history = Group.current(), list[Epoch]()
    folder, refused = Folder(out), None
    with ExitStack() as lock:
        if group.rank == 0:
            try:
                with using_out(out):
                    lock.enter_context(Folder.start(out, config))
            except InputError as error:
                refused = str(error)
        refused = group.gather(refused)[0]  # the folder is there for all, or all stop
        if refused is not None:
            raise InputError(refused)
        if folder.model.exists():
            return False

        told = Observers(observer, LogFile(out / LOG)) if group.rank == 0 else observer
        about: dict[str, Any] = {"objective": objective.describe(), "noise": objective.noise.describe()}
        about["class_names"] = list(data.class_names)

        def save(path: Path, epoch: Epoch, more: Mapping[str, Any] = MappingProxyType({})) -> None:
            versions = {"smoothcert": smoothcert.__version__, "torch": torch.__version__}
            found = {"epochs": epoch.number, "versions": versions, "accuracy_under_noise": epoch.accuracy}
            models.save(path, model, architecture, json.loads(json.dumps(config | about | found | dict(more))))

        with task(told, f"seed {seed}") as under_way:

            def on_epoch(epoch: Epoch) -> None:
                history.append(epoch)
                under_way.reach(under_way.done, note=str(epoch))
                if group.rank > 0:
                    return
                folder.log(history)
                kept = folder.path / f"epoch-{epoch.number:04d}.safetensors"
                now = (session.position.epoch, session.position.step) == (epoch.number, 0)
                if keep_every and not epoch.number % keep_every and now and not kept.exists():
                    with averaged(model, session.average), evaluating(model):
                        save(kept, epoch)
                write_events(folder.path / "events", epoch, new=now)

            run(session, save_every=save_every, on_epoch=on_epoch, on_step=under_way.reach)
        if group.rank == 0:
            save(folder.model, history[-1], {} if finish is None else finish(model))
        group.gather(None)  # nobody leaves before the model is written
    return True


def _refuse_nothing_to_tune(recipe: Recipe, init: Path | None) -> None:
    if recipe.tunes is not None and init is None:
        there = " or ".join(name for name in (recipe.tunes, f"{recipe.tunes}-fast") if name in RECIPES)
        raise InputError(
            f"{recipe.name} goes on with a trained model; give it with --init, such as one of {there or recipe.tunes}"
        )


def _take_weights(model: torch.nn.Module, architecture: Architecture, init: Path) -> str:
    """Put the weights of a checkpoint into the model; gives its fingerprint."""
    found = models.load(init)
    if found.architecture.name != architecture.name:
        raise InputError(
            f"--init {init} is a {found.architecture.name}, but the recipe trains a {architecture.name}; "
            f"add --set architecture={found.architecture.name}"
        )
    try:
        model.load_state_dict(cast(torch.nn.Module, found.model).state_dict())
    except RuntimeError:
        raise InputError(
            f"--init {init} takes inputs of shape {found.architecture.input_shape} and knows "
            f"{found.architecture.num_classes} classes, the data have {tuple(architecture.input_shape)} and "
            f"{architecture.num_classes}; give a checkpoint for these data"
        ) from None
    return str(found.fingerprint)


def _tensors(data: Dataset, rows: list[int], device: str) -> tuple[Tensor, Tensor]:
    return data.tensors(rows).to(device), torch.from_numpy(data.labels[rows]).to(device)
