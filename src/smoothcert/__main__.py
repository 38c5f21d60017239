"""`python -m smoothcert`, and the command `smoothcert`."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


def main() -> None:
    """The entry point. Ctrl-C is answered by the command; here, while it is loaded and made, which takes a moment."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as in the background of a shell
        signal.signal(signal.SIGINT, _first_interrupt)
    try:
        gc.disable()
        from smoothcert.cli import main as run  # noqa: PLC0415

        gc.freeze()  # modules are no garbage: not looking for it in them saves a tenth of the start
        gc.enable()
        with _streams():
            run()
    except KeyboardInterrupt:
        print("\nsmoothcert: interrupted; run the same command again", file=sys.stderr)
        sys.exit(130)


@contextmanager
def _streams() -> Iterator[None]:
    """Letters that the terminal does not have are escaped; a reader that closed the pipe has seen enough: no error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    out, err = sys.stdout.fileno(), sys.stderr.fileno()
    with _ignored_pipe(out, err):
        try:
            yield
        finally:
            sys.stdout.flush()


@contextmanager
def _ignored_pipe(*descriptors: int) -> Iterator[None]:
    """What is left for a reader that is gone goes nowhere, and Python does not complain at its end."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in descriptors:
            os.dup2(nowhere, descriptor)


def _first_interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _second_interrupt)
    raise KeyboardInterrupt


def _second_interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Whoever is still tidying up is left alone no longer: what is on disk stands a kill at any moment."""
    os._exit(130)


if __name__ == "__main__":
    main()
