"""Finding the files of a data set, and turning every failure to read one into one sentence."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from smoothcert.core.errors import InputError

FRESH_COPY = "replace it by a fresh copy of the official file"


@contextmanager
def reading(path: Path, *, kind: str, remedy: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes one InputError that names the file, the reason and the way out.

    It catches every Exception, on purpose: on damaged bytes gzip, zipfile, zlib, pickle, Pillow, numpy and scipy raise
    some twenty kinds, SyntaxError and MemoryError among them, and none of these lists is documented. Their warnings are
    silenced here, since the sentence says it all. Blocks are not nested.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(f"{path} cannot be read as {kind} ({reason}): {remedy}") from error


def locate(source: str, root: Path, *, folders: Sequence[str], wanted: Sequence[Sequence[str]]) -> list[Path]:
    """Return one existing file for each entry of `wanted`, all from the same folder.

    Each entry lists the accepted names of one file, the preferred one first; `folders`, relative to `root`, are tried
    in order and the first that holds all is taken. Where none does, the InputError says which files belong where.
    """
    for folder in folders:
        found = [_first(root / folder, names) for names in wanted]
        complete = [path for path in found if path is not None]
        if len(complete) == len(wanted):
            return complete
    files = ", ".join(" or ".join(names) for names in wanted)
    place = Path(os.path.abspath(root / folders[0]))
    raise InputError(
        f"source {source!r} needs the files {files}, and they are not all in {place}: put them there, "
        "or give --data-root (root= in Python), or set SMOOTHCERT_DATA, to the folder that holds them"
    )


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    # os.path.isfile answers False where Path.is_file may raise (names too long, no permission).
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)
