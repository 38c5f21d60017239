"""Start a server: a model, perhaps the run that certified it, and where answers go; until it is told to stop."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from smoothcert.core.errors import InputError
from smoothcert.engine import Pool, Routed
from smoothcert.procedures import Procedure
from smoothcert.runs import Run
from smoothcert.service.answering import Service
from smoothcert.service.classifier import Say, open_served
from smoothcert.service.http.app import create_app
from smoothcert.service.http.guard import LOOPBACK, Log, log_line
from smoothcert.service.keys import KeyRing
from smoothcert.service.limits import Limits
from smoothcert.service.metrics import Metrics
from smoothcert.workflows.brought import AnyModel
from smoothcert.workflows.choices import PoolChoice, resolve_pool
from smoothcert.workflows.memory import opened_memory
from smoothcert.workflows.predict import Running
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.routing import RoutedModels
from smoothcert.workflows.sources import model_name, using_out


@dataclass(frozen=True)
class Door:
    """Where a server listens, and to whom. Only this machine, unless told otherwise."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("--tls-cert and --tls-key go together; give both, or none")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token):
            raise InputError("--token must be plain letters and digits, at least one")

    @property
    def loopback(self) -> bool:
        """Only this machine can ask."""
        return self.host in LOOPBACK

    @property
    def scheme(self) -> str:
        """Of its addresses."""
        return "http" if self.tls_cert is None else "https"


def serve(
    model: AnyModel,
    *,
    run: Run | str | Path | None = None,
    running: Running | None = None,
    procedure: Procedure | ProcedureChoice | None = None,
    memory: str | Path | None = None,
    out: Path | None = None,
    door: Door | None = None,
    limits: Limits | None = None,
    name: str | None = None,
    calibration: Any = None,
    device: str | None = None,
    pool: Pool | PoolChoice | None = None,
    data_root: Path | None = None,
    say: Say = print,
    log: Log = log_line,
    on_start: Callable[[str, Callable[[], None]], None] = lambda address, stop: None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; then what was taken is answered, and nothing more is taken.

    Args:
        model: a model whose file says what it takes; or a router and its members.
        run: answer as the classifier that it certified, and by its procedure; another model is refused.
        running: noise and backend, where no run settles them.
        procedure: default: the run's; else `Fixed` with 10 000 draws.
        memory: through which answers go. Several servers may share one.
        out: the folder that keeps answers, a run for each key. Default: none is kept, and nothing can be audited.
        door: where it listens.
        limits: what is allowed.
        name: of the model in URLs. Default: that of its file.
        calibration, device, pool, data_root: as of `certify`.
        say: hears what an operator should read; `log` one event per request.
        on_start: hears the address, and gets a function that stops the server: for whoever runs it in a thread.
    """
    door, limits, metrics = door or Door(), limits or Limits(), Metrics()
    with ExitStack() as stack:
        remembered = stack.enter_context(opened_memory(memory))
        kept = Path(stack.enter_context(TemporaryDirectory(prefix="smoothcert-"))) if out is None else out
        served = open_served(
            model, run, running, procedure, remembered, calibration, device, resolve_pool(pool), data_root, say
        )
        config = served.config(remembered)
        listening = stack.enter_context(_socket(door))
        with using_out(kept):
            keys = KeyRing(kept, config, limits, on_new=lambda hashed: _new_key(hashed, metrics, say))
        service = Service(
            served.smoothed, served.example, served.procedure, keys, class_names=config.class_names,
            memory=remembered, limits=limits, metrics=metrics, input_range=served.input_range,
        )  # fmt: skip
        stack.callback(service.close)
        service.prepare(served.procedure)
        called = name or _name(model) or served.classifier.name
        app = create_app(
            service, name=called, version=version("smoothcert"), token=door.token, loopback=door.loopback, log=log
        )
        host, port = listening.getsockname()[:2]
        address = f"{door.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        say(f"{called} answers at {address}/ (stop it with Ctrl-C)")
        if out is None:
            say("without --out no answer is kept: nobody will be able to verify them")
        server = _Server(_uvicorn(app, door))
        on_start(address, server.stop)
        server.run(sockets=[listening])


def _name(model: AnyModel) -> str | None:
    """What a model is called where nobody says; a routed classifier as its router."""
    if isinstance(model, Routed):
        return None
    return model_name(model.router if isinstance(model, RoutedModels) else model)


def _new_key(hashed: str, metrics: Metrics, say: Say) -> None:
    metrics.keys.inc()
    say(f"draws follow from a secret key with the SHA-256 {hashed}")


@contextmanager
def _socket(door: Door) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    try:
        listening = socket.create_server((door.host, door.port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"--host {door.host} --port {door.port} cannot be listened at ({reason}); give another --port"
        ) from None
    with listening:
        yield listening


def _uvicorn(app: Any, door: Door) -> uvicorn.Config:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=30,
        h11_max_incomplete_event_size=65_536, lifespan="on",
        ssl_certfile=door.tls_cert, ssl_keyfile=door.tls_key,
    )  # fmt: skip
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"--tls-cert and --tls-key cannot be used ({error}); give PEM files") from None
    return config


class _Server(uvicorn.Server):
    """Ends when it is told to, and not by the signal that told it."""

    def stop(self) -> None:
        """Finish what was taken, and end."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM: finish what was taken; a second one: at once."""
        if threading.current_thread() is not threading.main_thread():  # signals are not for it
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
