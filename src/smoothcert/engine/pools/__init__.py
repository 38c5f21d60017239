"""Pools: where draws are evaluated. `Threads` are those of this process; `base` is what others implement."""

from smoothcert.engine.pools.base import Pool, Session, Work, WorkerRefusedError, WorkLostError
from smoothcert.engine.pools.threads import Threads

__all__ = ["Pool", "Session", "Threads", "Work", "WorkLostError", "WorkerRefusedError"]
