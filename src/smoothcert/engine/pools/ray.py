"""`Ray`: the pool of a cluster of machines (https://docs.ray.io)."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.core.errors import InputError
from smoothcert.engine.pools.base import Pool, Session, Work
from smoothcert.engine.pools.crew_session import open_session
from smoothcert.engine.pools.holder import ModelHolder
from smoothcert.engine.pools.processes import check_workers
from smoothcert.engine.pools.recruiting import Answered, Inbox, Link, Lost, Recruiter
from smoothcert.engine.pools.shipping import tensor_as_array

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled


@dataclass(frozen=True)
class Ray(Pool):
    """Workers on the machines of a Ray cluster, with a copy of the model each; needs the extra `ray`.

    The model is sent once to each machine; a call is a batch of pieces, and counts come back: votes are those of one
    thread of this machine. Work that is lost with a worker or a machine is handed out again, and machines that join
    later are used. A worker that would run another classifier (other software, another kind of processor) is refused by
    name, and the others go on. Every machine needs the same smoothcert, Python and torch; this process needs what it
    takes to run the model once, a GPU for a model on a GPU.

    A process that has called `ray.init` itself keeps that connection, with all its settings.

    Args:
        address: of the cluster: "auto" (the one that this machine is part of), HOST:PORT or ray://HOST:PORT. Default:
            $RAY_ADDRESS, a cluster that runs on this machine, or one that is started here for this process.
        workers: how many; those that find no room wait for it. Default: all the cluster has room for, now and later.
        gpus_per_worker: 0.5 lets two workers share a GPU. Default: 1 for a model on a GPU, else 0.
    """

    address: str | None = None
    workers: int | None = None
    gpus_per_worker: float | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.gpus_per_worker is not None and not self.gpus_per_worker >= 0:
            raise InputError(f"gpus_per_worker must not be negative, got {self.gpus_per_worker!r}")

    def open(self, compiled: Compiled) -> Session:
        """Workers that are there for all models of this process."""
        gpus = self._gpus(compiled)
        connect(self.address)
        plan = (self, gpus, compiled.threads, _connection())
        return open_session(plan, lambda: _Starter(self.workers, compiled.threads, gpus), compiled)

    def _gpus(self, compiled: Compiled) -> float:
        on_gpu = compiled.device.type == "cuda"
        gpus = float(on_gpu) if self.gpus_per_worker is None else self.gpus_per_worker
        if gpus > 0 and not on_gpu:
            raise InputError(f"gpus_per_worker needs a model on a GPU, got one on {compiled.device}; leave it out")
        if on_gpu and not gpus:
            raise InputError("gpus_per_worker must be above 0 for a model on a GPU, or the workers would see none")
        return gpus


def connect(address: str | None) -> Any:
    """The package ray, connected to the cluster."""
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # else workers may start with another environment
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 (an extra)
    except ImportError:
        raise InputError("the pool ray needs the package ray: pip install 'smoothcert[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            said = str(error).strip().partition("\n")[0]
            where = "a Ray cluster" if address in (None, "auto") else f"the Ray cluster at {address}"
            raise InputError(f"{where} cannot be reached ({said}); start one with: ray start --head") from error
    return ray


def _connected(ray: Any) -> Any:
    """The package ray; it would start a cluster of its own if it were asked anything after its end."""
    if not ray.is_initialized():
        raise RuntimeError("the connection to the Ray cluster was closed")
    return ray


def _connection() -> str:
    """Which cluster, and which time: after `ray.shutdown` workers of before are gone."""
    import ray  # noqa: PLC0415

    context = ray.get_runtime_context()
    return f"{context.gcs_address} {context.get_job_id()}"


class RayWorker:
    """What an actor does: it holds models, and does works with them."""

    def __init__(self) -> None:
        import ray  # noqa: PLC0415

        node = ray.get_runtime_context().get_node_id()[:8]
        self._holder = ModelHolder(f"the Ray worker on {socket.gethostname()} (node {node}, process {os.getpid()})")

    def hello(self) -> bytes:
        """Who it is."""
        return self._holder.hello()

    def hold(self, key: int, software: Mapping[str, str], stowed: Sequence[Any]) -> bytes:
        """Take a model out of the object store, which brings it to each machine once."""
        import ray  # noqa: PLC0415

        return self._holder.hold(key, software, ray.get(stowed[0]))

    def run(self, key: int, work: bytes) -> bytes:
        """Do a work with a model that is held."""
        return self._holder.run(key, work)

    def drop(self, key: int) -> bytes:
        """Let go of a model."""
        return self._holder.drop(key)


class _Starter(Recruiter):
    """Starts actors: Ray finds room for them, now or when there is some."""

    def __init__(self, workers: int | None, threads: int, gpus: float) -> None:
        import ray  # noqa: PLC0415

        self._ray, self._workers, self._packer = ray, workers, _cloud_packer(ray)
        self._needs = {"CPU": float(threads)} | ({"GPU": gpus} if gpus else {})
        # An actor that is lost is replaced by another one, wherever there is room, and not by itself.
        self._actor = ray.remote(num_cpus=threads, num_gpus=gpus, max_restarts=0, max_task_retries=0)(RayWorker)
        needs = " and ".join(f"{amount:g} {what}" for what, amount in self._needs.items())
        self.waiting = f"each needs {needs} of the Ray cluster; see what others hold with: ray status"

    def wanted(self, refused: int) -> int:
        """As many as asked for that can be used, or all there is room for."""
        return self.room() if self._workers is None else self._workers + refused

    def room(self) -> int:
        """Of all machines that are there; what others hold comes free one day."""
        nodes = (node["Resources"] for node in _connected(self._ray).nodes() if node["Alive"])
        return sum(min(int(node.get(what, 0) / amount) for what, amount in self._needs.items()) for node in nodes)

    def start(self, inbox: Inbox) -> Link:
        """Without waiting for room."""
        _connected(self._ray)
        return _Actor(self._ray, self._actor.remote(), inbox)

    def stow(self, parcel: bytes) -> Any:
        """In the object store. In a list, because Ray would fetch a bare reference for every call."""
        return [self._ray.put(parcel)]

    def pack_model(self, compiled: Compiled) -> bytes:
        """Also what is defined in the script itself, which workers do not import."""
        packed: bytes = self._ray.cloudpickle.dumps(compiled)
        return packed

    def pack(self, work: Work[Any]) -> bytes:
        """So here."""
        buffer = io.BytesIO()
        self._packer(buffer).dump(work)
        return buffer.getvalue()


def _cloud_packer(ray: Any) -> Any:
    class CloudPacker(ray.cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            found = tensor_as_array(value)
            return super().reducer_override(value) if found is NotImplemented else found

    return CloudPacker


class _Actor(Link):
    """A Ray actor. Whatever Ray raises of a call means that the worker is gone or out of reach."""

    def __init__(self, ray: Any, actor: Any, inbox: Inbox) -> None:
        self._ray, self._actor, self._inbox = ray, actor, inbox

    def call(self, number: int, method: str, *arguments: Any) -> None:
        """The answer comes in a thread of Ray's own, which only passes it on."""

        def heard(future: Future[bytes]) -> None:
            error = future.exception()
            lost = error is not None
            self._inbox.put(Lost(self, _reason(error)) if lost else Answered(self, number, future.result()))

        _connected(self._ray)
        getattr(self._actor, method).remote(*arguments).future().add_done_callback(heard)

    def end(self) -> None:
        """At once: whatever it is doing is not wanted any more."""
        with suppress(Exception):  # Ray may have ended before
            _connected(self._ray).kill(self._actor)


def _reason(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
