"""`smoothcert attack`: try to refute the certificates of a run, and see how far robustness reaches beyond them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothcert.attack.campaign import AttackCampaign
    from smoothcert.attack.records import Attacked
    from smoothcert.runs import Run

BEYOND = 8  # columns of the table by default: 0, then as far as twice the largest certified radius


def attack(
    run: Annotated[Path, typer.Option(help="Run whose certificates are attacked.")],
    model: o.Model,
    adversary: Annotated[
        list[str],
        typer.Option("--attack", help="pgd, ddn, autoattack or foolbox:NAME (such as foolbox:L2PGD); may be repeated."),
    ] = ["pgd", "ddn"],  # noqa: B006
    radii: o.Radii = None,
    steps: Annotated[int, typer.Option(help="Steps of pgd and ddn.")] = 20,
    draws: Annotated[int, typer.Option(help="Noise draws behind every gradient.")] = 128,
    votes: Annotated[int, typer.Option(help="Draws that decide whether an answer has changed.")] = 1_000,
    limit: Annotated[int | None, typer.Option(help="At most so many inputs of the run.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of what is found; the same command resumes it. Default: RUN/attack."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw both curves to a .png, .svg or .pdf file.")] = None,
    data: Annotated[str | None, typer.Option(help="The data set that was certified. Default: the run's.")] = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    workers: o.Workers = None,
    calibration: o.Calibration = None,
    as_json: o.AsJson = False,
) -> None:
    """Attack the smoothed classifier: below a certified radius nothing may succeed (status 1 if it does)."""
    from smoothcert.attack.adversaries import AttackEffort
    from smoothcert.attack.campaign import AttackCampaign, refuse_scopes
    from smoothcert.attack.figure import robust_accuracy_curves
    from smoothcert.attack.records import AttackRun
    from smoothcert.attack.table import attack_table, robust_accuracies
    from smoothcert.audit.rebuild import rebuild, refuse_other_model, refuse_soft
    from smoothcert.models import ensembles
    from smoothcert.present.figures.canvas import check_name
    from smoothcert.runs import Run

    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1, got {limit}")
    if figure is not None:
        check_name(figure)
    opened = Run.open(run)
    refuse_soft(opened, "attack")
    records = opened.records()[:limit]
    if not records:
        raise InputError(f"{run} has no recorded input to attack; certify first")
    refuse_scopes(records)
    checkpoint = ensembles.load_model(model, o.device(device or o.run_device(opened)))
    refuse_other_model(opened, checkpoint.fingerprint)
    dataset = o.run_data(opened, data, data_root)
    o.check_shape(dataset.inputs.shape[1:], checkpoint.architecture, dataset.name)
    about: dict[str, Any] = {"workers": workers, "input_range": dataset.input_range}
    about["input_shape"] = tuple(checkpoint.architecture.input_shape)
    about["calibration"] = o.run_calibration(opened, calibration, data, data_root)
    classes = checkpoint.architecture.num_classes
    smoothed = rebuild(opened, checkpoint.model, classes, **about)
    judge = rebuild(opened, checkpoint.model, classes, seed=smoothed.seed + 1, **about)
    tried = tuple(_radii(radii, [record.radius for record in records]))
    campaign = AttackCampaign(smoothed, judge, tuple(adversary), tried, AttackEffort(steps=steps, draws=draws), votes)
    attacked = AttackRun.start(out or run / "attack", campaign.config(opened, [record.index for record in records]))
    found = _attacking(attacked, campaign, dataset, records)
    rows = robust_accuracies(found, [0.0, *tried])
    if figure is not None:
        robust_accuracy_curves(rows, figure)
    if as_json:
        typer.echo(json.dumps({"inputs": [a.to_json() for a in found], "rows": [row.to_json() for row in rows]}))
    else:
        o.console().print(attack_table(rows))
    _verdict(found, opened)
    if any(a.violation for a in found):
        raise typer.Exit(1)


def _radii(text: str | None, certified: Sequence[float]) -> list[float]:
    if text is not None:
        return sorted({r for r in o.numbers(text) if r != 0})
    step = 2 * max(*certified, 0.25) / BEYOND
    nice = next(size for size in (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, step + 1) if size >= step)
    return [round(nice * (i + 1), 6) for i in range(BEYOND)]


def _attacking(attacked: Any, campaign: AttackCampaign, dataset: Any, records: Sequence[Any]) -> list[Attacked]:
    """Attack what is not recorded yet, under a bar."""
    from smoothcert.cli.progress import bar

    with bar("{task.fields[found]}") as progress, attacked.writing() as writer:
        done = {one.index for one in attacked.attacked()}
        todo = [record for record in records if record.index not in done]
        task = progress.add_task("attack", total=len(records), completed=len(done), found="")
        broken = 0
        if todo:
            for one in campaign.attack(dataset.tensors([record.index for record in todo]), todo):
                writer.append(one)
                broken += one.violation is not None
                progress.update(task, advance=1, found=f"{broken} false certificates" if broken else "")
    return attacked.attacked()  # type: ignore[no-any-return]


def _verdict(found: Sequence[Attacked], run: Run) -> None:
    certified = sum(one.radius > 0 for one in found)
    false = [one for one in found if one.violation is not None]
    if not false:
        typer.echo(f"no attack succeeded below the certified radius of {certified} certified inputs", err=True)
        return
    console = o.console()
    alpha = run.config.alpha
    for one in false:
        violation = one.violation
        assert violation is not None
        text = (
            f"FALSE CERTIFICATE: input {one.index} is certified as class {one.certified} below l2 radius {one.radius}, "
            f"but {violation.adversary} found class {violation.answer} at distance {violation.distance:.6g} "
            f"(p-value {violation.p_value:.1g})"
        )
        console.print(Text(text, style="bold red"))
    typer.echo(
        f"{len(false)} of {certified} certificates are false; alpha = {alpha} allows for "
        f"{certified * (alpha or 0):.2g} on average: more is a bug, please report it",
        err=True,
    )
