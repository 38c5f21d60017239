"""`smoothcert serve`: answers with proofs over HTTP; `smoothcert serve reveal`: its key, for an audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli import procedure_options as p
from smoothcert.cli import router_options as r
from smoothcert.cli.options import option
from smoothcert.cli.output import say
from smoothcert.core.errors import InputError

DOOR, LIMITS = "Door", "Limits"
AsRun = Annotated[
    Path | None, option("Answer as the classifier that this run certified; another model is refused.", "--run")
]
Name = Annotated[
    str | None,
    option("Default: the run's; else sequential where --radius is given, and fixed with n = 10000.", "--procedure"),
]
Out = Annotated[Path | None, option("Folder that keeps every answer, a run per key, for an audit.")]
Called = Annotated[str | None, option("Name of the model in URLs. Default: that of its file.", "--name")]
Host = Annotated[str, option("Where it listens; 0.0.0.0: to all the world, if nothing stands before it.", panel=DOOR)]
Port = Annotated[int, option("0: a free one.", panel=DOOR)]
Token = Annotated[
    str | None,
    typer.Option(help="Only who sends it is answered.", envvar="SMOOTHCERT_TOKEN", rich_help_panel=DOOR),
]
Cert = Annotated[Path | None, option("PEM file: answer over TLS.", panel=DOOR)]
TlsKey = Annotated[Path | None, option("PEM file of its key.", panel=DOOR)]
Rotate = Annotated[float, option("Seconds after which the secret key is changed.", panel=LIMITS)]
Queue = Annotated[int, option("Questions that may wait; then 429.", panel=LIMITS)]
Most = Annotated[int | None, option("New answers for a client and day: each may be false, by alpha.", panel=LIMITS)]
Deadline = Annotated[float, option("Seconds after which a request is answered with what there is.", panel=LIMITS)]
Rate = Annotated[float, option("Requests of one client per second.", panel=LIMITS)]
Body = Annotated[int, option("Bytes of a request.", panel=LIMITS)]
Draws = Annotated[int, option("Draws that one answer may take.", panel=LIMITS)]
SETTLED_BY_RUN = ("sigma", "noise", "norm", "values", "grid", "batch_size", "backend", "router_sigma", "router_share")


def serve(
    context: typer.Context, model: o.Model = [], run: AsRun = None,  # noqa: B006
    sigma: o.Strength = None, noise: o.NoiseName = "gaussian", norm: o.Norm = None, values: o.Values = None,
    grid: o.Grid = "auto", router: r.Model = None, router_sigma: r.Strength = None, router_share: r.Share = 0.5,
    procedure: Name = None, radius: p.Radius = [], n: p.N = None, alpha: o.Alpha = 0.001,  # noqa: B006
    memory: o.MemoryAt = None, out: Out = None, name: Called = None, host: Host = "127.0.0.1", port: Port = 8000,
    token: Token = None, tls_cert: Cert = None, tls_key: TlsKey = None, rotate_every: Rotate = 86_400.0,
    queue: Queue = 256, most_answers: Most = None, deadline: Deadline = 60.0, rate: Rate = 50.0,
    most_body: Body = 8 * 2**20, most_draws: Draws = 1_000_000, batch_size: o.BatchSize = None,
    device: o.Device = None, workers: o.Workers = None, pool: o.PoolName = "threads", address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None, backend: o.Backend = "eager", calibration: o.Calibration = None,
    data_root: o.DataRoot = None,
) -> None:  # fmt: skip
    """Answer over HTTP with proofs: Open Inference Protocol, image files, a page, metrics."""
    if context.invoked_subcommand is not None:
        return
    if not model:
        raise InputError("give --model, the checkpoint or ensemble that is to answer")
    for option_name in SETTLED_BY_RUN if run is not None else ():
        if o.was_given(context, option_name):
            raise InputError(f"--{option_name.replace('_', '-')} does not go with --run, which names it; leave it out")
    from smoothcert.workflows.choices import NoiseChoice
    from smoothcert.workflows.routing import models_of

    service = _service()
    choice = _procedure(procedure, radius, n, alpha if o.was_given(context, "alpha") else None, run)
    door = service.Door(host, port, token, tls_cert, tls_key)
    limits = service.Limits(
        queue=queue, body=most_body, draws=most_draws, deadline=deadline, rate=rate, most_answers=most_answers,
        rotate_every=rotate_every,
    )  # fmt: skip
    where, how = service.PoolChoice(pool, workers, address, gpus_per_worker), None
    if run is None:
        how = service.Running(NoiseChoice(noise, sigma, norm, values, grid), backend, batch_size)
    models = models_of(model, router, strength=router_sigma, share=router_share)
    service.serve(
        models, run=run, running=how, procedure=choice, memory=memory, out=out, door=door, limits=limits, name=name,
        calibration=calibration, device=device, pool=where, data_root=data_root, say=say,
    )  # fmt: skip


def reveal(
    out: Annotated[Path, typer.Argument(help="The --out of a server that has stopped, or changed its key.")],
) -> None:
    """Reveal the keys of a server: its answers become runs that `smoothcert verify` checks to the last draw."""
    from smoothcert.service.reveal import reveal as workflow

    for one in workflow(out):
        answers = "1 answer" if one.answers == 1 else f"{one.answers} answers"
        say(f"{answers} under the key {one.key}; see: smoothcert verify {one.run} --model MODEL")


def _service() -> Any:
    try:
        from smoothcert.service import serve as found
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs {error.name}: pip install 'smoothcert[service]'") from None
    return found


def _procedure(name: str | None, radius: list[float], n: int | None, alpha: float | None, run: Path | None) -> Any:
    """What was said about the procedure; None: nothing."""
    from smoothcert.workflows.procedure_choice import ProcedureChoice

    if name is None and not radius and n is None and alpha is None:
        return None
    if name is None and run is not None and not radius:
        raise InputError("--n and --alpha do not go with --run, whose procedure names them; give --procedure, too")
    name = name or ("sequential" if radius else "fixed")
    return ProcedureChoice(name, radius, 10_000 if name == "fixed" and n is None else n, alpha=alpha or 0.001)
