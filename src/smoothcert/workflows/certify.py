"""Certify any model on any data into a run on disk, going on where an earlier attempt stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smoothcert import runs
from smoothcert.audit.memory import refuse_other_memory
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, ReadOptions, Subset
from smoothcert.engine import MemberCalls, Pool, Routed, SigmaSearch, Smoothed, WeightSearch
from smoothcert.memory import Memory
from smoothcert.models import ensembles
from smoothcert.noise import Noise
from smoothcert.procedures import Fixed, Procedure
from smoothcert.runs import ModelConfig, Record
from smoothcert.runs.evaluations import add_evaluations
from smoothcert.runs.made import command_line
from smoothcert.workflows.choices import (
    NoiseChoice,
    PoolChoice,
    SearchChoice,
    WeightsChoice,
    resolve_noise,
    resolve_pool,
)
from smoothcert.workflows.inputs import open_both
from smoothcert.workflows.memory import opened_memory
from smoothcert.workflows.observer import LOG, SILENT, LogFile, Observer, Observers, task
from smoothcert.workflows.of_run import resumed_backend
from smoothcert.workflows.outcome import Outcome
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.recording import certify_into, run_config
from smoothcert.workflows.routing import RoutedModels, build_routed, open_routed
from smoothcert.workflows.run import Run
from smoothcert.workflows.sources import (
    DataSource,
    ModelSource,
    calibration_inputs,
    is_eight_bit,
    open_data,
    using_out,
)


def certify(
    model: ModelSource | RoutedModels | Routed,
    data: DataSource,
    *,
    noise: Noise | NoiseChoice | None = None,
    procedure: Procedure | ProcedureChoice | None = None,
    out: str | Path,
    seed: int = 0,
    num_classes: int | None = None,
    split: str = "test",
    subset: Subset | None = None,
    search: SigmaSearch | SearchChoice | None = None,
    weights: WeightSearch | WeightsChoice | None = None,
    memory: Memory | str | Path | None = None,
    backend: str = "eager",
    calibration: Any = None,
    batch_size: int | None = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    data_root: Path | None = None,
    read: ReadOptions | None = None,
    command: Sequence[str] = (),
    observer: Observer = SILENT,
) -> Run:
    """Certify inputs of `data` with the smoothed `model` into the folder `out`; the same call again goes on with it.

    Every certificate is on disk before the next is made. A folder that holds anything else is refused, and so are
    inputs that were held out to make an ensemble: numbers measured on these would flatter it. A function without a
    `fingerprint` can be certified, but its run cannot be resumed: nobody can tell whether it is the same function.

    Args:
        model: any callable from inputs (B, ...) to scores (B, C), a module, what `load_model` gave, or a file; or a
            `Routed`, which settles noise, seed and how it is run.
        data: a data set, the name of one, an .npz file, a folder of images, a table, or arrays (x, y). Without labels:
            an array x, or a list of images, folders of images and .npy files.
        noise: what is added to inputs, and so in which norm the certificates speak.
        procedure: how certificates are made. Default: `Fixed()`, Cohen's.
        out: the folder of the run.
        seed: of all draws.
        num_classes: how many scores the model gives. Default: it is asked.
        split: of data that have several: test or train.
        subset: which inputs. Default: all.
        search: how each input gets its own strength of noise. Default: all have that of `noise`.
        weights: how each input gets its own weights of a softmax-voting ensemble. Default: those of the ensemble.
        memory: where certified regions are kept, through which the classifier answers. Default: none.
        backend: how the model is run; see `Smoothed`, also for the next three.
        batch_size: rows per call of the model.
        workers: how many run it at once.
        pool: where.
        calibration: of an int8 backend: training inputs, or DATA:split. Default: the training split of `data`.
        device: where to run. Default: where a module is; the best there is for files.
        data_root: where the files of named data sets lie.
        read: how images are resized and cropped, which column of a table has the labels, what classes are called.
        command: what the user typed, word by word, for readers of the run.
        observer: hears how it goes. It also goes into the file progress.log of the run.
    """
    procedure = procedure.resolve() if isinstance(procedure, ProcedureChoice) else procedure or Fixed()
    out, subset = Path(out), subset or Subset()
    found = search.resolve(procedure) if isinstance(search, SearchChoice) else search
    weighing = weights.resolve() if isinstance(weights, WeightsChoice) else weights
    if isinstance(model, Routed | RoutedModels):
        if found is not None or weighing is not None or memory is not None:
            raise InputError(
                "a router chooses the noise of each input: leave the search, weights per input and the memory out"
            )
        return _certify_routed(
            model, data, noise, procedure, out, seed, split, subset, backend, calibration, batch_size, device,
            workers, resolve_pool(pool), data_root, read, command, observer,
        )  # fmt: skip
    if noise is None:
        raise InputError("certify needs a noise, such as noise=Gaussian(sigma=0.25)")
    classifier, dataset = open_both(
        model,
        data,
        split,
        device=device,
        num_classes=num_classes,
        root=data_root,
        read=read,
        observer=observer,
    )
    with using_out(out):
        earlier = runs.Run.at(out)  # before a memory is made that the run would refuse
    backend, batch_size = resumed_backend(earlier, backend, batch_size)
    with opened_memory(memory) as remembered:
        calibrating, named = calibration_inputs(backend, calibration, data, data_root)
        smoothed = Smoothed(
            classifier.model,
            num_classes=classifier.num_classes,
            noise=resolve_noise(noise, classifier.details, eight_bit=is_eight_bit(dataset)),
            seed=seed,
            device=classifier.device,
            batch_size=batch_size,
            workers=workers,
            pool=resolve_pool(pool),
            backend=backend,
            calibration=calibrating,
            search=found,
            weights=weighing,
            memory=remembered,
            input_range=dataset.input_range,
            input_shape=dataset.shape,
        )
        _refuse_held_out(set(classifier.details.get("held_out") or ()), data, dataset, subset)
        if earlier is not None:
            refuse_other_memory(earlier, remembered)
        if one_sided := _one_sided(dataset, subset):
            observer.warned(one_sided)
        if backend == "auto":
            with task(observer, "backend") as measuring:
                smoothed.compile(
                    dataset.inputs.shape[1:], say=lambda text: measuring.reach(measuring.done + 1, note=text)
                )
        config = run_config(smoothed, procedure, dataset, subset, replace(classifier.about, calibration=named))
        with using_out(out):
            run = Run.start(out, config, command=command_line(command))
        run.data = dataset
        calls = MemberCalls()
        certify_observed(run, smoothed, procedure, dataset, observer, calls)
    if sentence := config.data.prepared:
        observer.message(sentence)
    if calls.per_member and isinstance(classifier.model, ensembles.Ensemble):
        observer.message(add_evaluations(out, calls.per_member, classifier.model.cost))
    if (found is not None or weighing is not None) and memory is None:
        observer.warned(
            "each certificate is of its input's own classifier, and claims nothing about neighbours; for a claim about "
            "one classifier give --memory, and another --out"
        )
    return run


def _certify_routed(
    model: RoutedModels | Routed, data: DataSource, noise: Noise | NoiseChoice | None, procedure: Procedure, out: Path,
    seed: int, split: str, subset: Subset, backend: str, calibration: Any, batch_size: int | None, device: str | None,
    workers: int | None, pool: Pool | None, data_root: Path | None, read: ReadOptions | None, command: Sequence[str],
    observer: Observer,
) -> Run:  # fmt: skip
    """The same with a router; see `certify`."""
    with using_out(out):
        runs.Run.at(out)
    named = None
    if isinstance(model, Routed):
        settled = (noise, seed in (0, model.seed), backend, calibration, batch_size, device, workers, pool)
        if settled != (None, True, "eager", None, None, None, None, None):
            raise InputError("a Routed has its noise, seed, pool and backend already; leave them out")
        dataset, routed, opened = open_data(data, split, root=data_root, called="--data", read=read), model, None
        routed.compile(dataset.shape)  # members that came as models are asked for their classes
    else:
        opened, dataset = open_routed(model, data, split, device=device, root=data_root, read=read, observer=observer)
        calibrating, named = calibration_inputs(backend, calibration, data, data_root)
        routed = build_routed(
            opened, model, noise or NoiseChoice(), seed=seed, eight_bit=is_eight_bit(dataset), pool=pool,
            workers=workers, backend=backend, batch_size=batch_size, calibration=calibrating,
            input_range=dataset.input_range, input_shape=dataset.shape,
        )  # fmt: skip
        _refuse_held_out(opened.held_out, data, dataset, subset)
    if one_sided := _one_sided(dataset, subset):
        observer.warned(one_sided)
    about = None if opened is None else opened.about
    config = run_config(routed, procedure, dataset, subset, ModelConfig(calibration=named), about)
    with using_out(out):
        run = Run.start(out, config, command=command_line(command))
    run.data = dataset
    certify_observed(run, routed, procedure, dataset, observer)
    if sentence := config.data.prepared:
        observer.message(sentence)
    return run


def _refuse_held_out(held_out: set[str], data: DataSource, dataset: Dataset, subset: Subset) -> None:
    """Refuse inputs that were held out to make an ensemble: numbers measured on these would flatter it."""
    if not held_out:
        return
    name = data if isinstance(data, str | Path) else dataset.name
    for part in dataset.parts(subset.indices(len(dataset))):
        ensembles.refuse_overlap(held_out, dataset.tensors(part), f"--data {name}")


def certify_observed(
    run: runs.Run,
    smoothed: Smoothed | Routed,
    procedure: Procedure,
    data: Dataset,
    observer: Observer,
    member_calls: MemberCalls | None = None,
) -> None:
    """Certify what is left of a run; the observer, and the log in its folder, count draws and hear how it goes."""
    done, per_input, fixed_draws = run.records(), procedure.most_draws(), procedure.fixed_draws()
    if isinstance(smoothed, Routed):
        per_input, fixed_draws = smoothed.most_draws(procedure), smoothed.fixed_draws(procedure)
    outcome = Outcome(len(run.planned), fixed_draws)
    for record in done:
        outcome.add(record)
    if len(done) < len(run.planned):
        observer = Observers(observer, LogFile(run.path / LOG))
    total, before = per_input * len(run.planned), per_input * len(done)
    with task(observer, "certify", total=total, done=before, note=str(outcome)) as under_way:

        def on_record(record: Record) -> None:
            outcome.add(record)
            # An input that needed fewer draws than it might have is done all the same.
            under_way.reach(max(under_way.done, per_input * outcome.inputs), note=str(outcome))

        certify_into(
            run, smoothed, procedure, data, on_draws=under_way.advance, on_record=on_record, member_calls=member_calls
        )


def _one_sided(dataset: Dataset, subset: Subset) -> str | None:
    """A data set that is ordered by class, cut by --every or --limit, may leave few of its classes."""
    rows = subset.indices(len(dataset))
    if dataset.unlabelled:
        return None
    here, all_of_them = (len(set(labels.tolist())) for labels in (dataset.labels[rows], dataset.labels))
    if 2 * here > all_of_them or len(rows) < 2 * all_of_them:
        return None
    return (
        f"the {len(rows)} chosen inputs are of {here} of the {all_of_them} classes of {dataset.name}, which is "
        "ordered: another --every may take all"
    )
