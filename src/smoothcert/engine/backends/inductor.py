"""torch's own compiler, with frozen weights: constants are folded, and weights are packed for the kernels."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.freed_memory import keep_freed_memory
from smoothcert.engine.backends.base import (
    BackendTask,
    Executable,
    Padded,
    UnableError,
    backend,
    digest,
    require_agreement,
)
from smoothcert.engine.backends.eager import arranged

PIECE = 32
"""Rows that are run at once, at most: what is compiled is of one shape, and takes seconds to make. Larger pieces are
hardly faster, and more of them is padding where few rows are left."""


class _InPieces(Padded):
    """Takes any number of rows as it is."""

    def in_calls_of(self, rows: int) -> Padded:
        return self


@backend("compile")
def prepare(task: BackendTask) -> Executable:
    """Compile the exported graph for pieces of one shape; calls of any number of rows are cut into these.

    Not through `torch.compile`, which compiles again, silently and without freezing, whenever the state of a thread
    (gradients, number of threads) is not the one it has seen: the graph of torch.export has no such conditions.
    """
    assert isinstance(task.model, nn.Module)
    keep_freed_memory()
    inductor: Any = importlib.import_module("torch._inductor")
    pieces = -(-task.rows // PIECE)
    piece = -(-task.rows // pieces)
    x = task.with_rows(piece).probe()
    try:
        with torch.no_grad():
            graph: Any = torch.export.export(arranged(task.model), (x,)).module()
            code = str(graph.code)
            with inductor.config.patch(freezing=True):
                compiled = inductor.compile(graph, [x])
                compiled(x)
    except Exception as error:  # of the exporter, the compiler, or the C++ compiler that may not be there
        raise UnableError(f"torch cannot compile it: {first_line(error)}") from error

    def run(batch: Tensor) -> Tensor:
        scores = compiled(batch.contiguous())
        result: Tensor = scores if isinstance(scores, Tensor) else scores[0]
        return result

    cut = _InPieces(run, piece)
    require_agreement(task, cut)
    about = {"name": "compile", "precision": task.precision, "version": torch.__version__, "piece": piece}
    unit = None if task.rows % piece else piece
    return Executable(lambda: cut, about | {"digest": digest(code.encode())}, unit=unit)


def first_line(error: Exception) -> str:
    """What an error of a large machine says, in short: the first cause, its first line."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]
