"""Processes that train: forked from a clean one that has torch loaded, so that a dozen of them cost little."""

import multiprocessing
import runpy
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

TRAINING = Path(__file__).with_name("training_process.py")
Start = Callable[..., ForkServerProcess]


@pytest.fixture(scope="session")
def start() -> Start:
    """Begin `training_process.py` with global variables of its own."""
    context = multiprocessing.get_context("forkserver")
    # The first step of an optimiser imports torch._dynamo, which takes seconds.
    context.set_forkserver_preload(["smoothcert.training", "smoothcert.datasets", "torch._dynamo"])

    def begin(**options: Any) -> ForkServerProcess:
        process = context.Process(target=runpy.run_path, args=(str(TRAINING),), kwargs={"init_globals": options})
        process.start()
        return process

    return begin
