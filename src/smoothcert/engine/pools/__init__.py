"""Pools: where draws are evaluated: threads of this process, processes, a Ray cluster; `base` is what each is."""

from smoothcert.engine.pools.base import Pool, Session, Work, WorkerRefusedError, WorkLostError
from smoothcert.engine.pools.processes import Processes
from smoothcert.engine.pools.ray import Ray
from smoothcert.engine.pools.threads import Threads

__all__ = ["Pool", "Processes", "Ray", "Session", "Threads", "Work", "WorkLostError", "WorkerRefusedError"]
