"""One at a time: whoever writes to a file that others may write to.

By `flock` where the file system has it. Where it has not (some network and FUSE mounts), by a file that is made only if
it is not there; what a kill leaves behind of it is named, with the way out.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from smoothcert.core.errors import InputError

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


@contextmanager
def only_writer(file: BinaryIO, folder: Path) -> Iterator[None]:
    """Be the only one who writes to an open file of a folder; a second one is refused."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise _busy(folder) from None
        with _lock_file(folder / ".writing"):
            yield
    else:
        yield


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise InputError(
            f"{path.parent} is being written by another process, or one was killed while it did: "
            f"wait for it, or delete {path}"
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _busy(folder: Path) -> InputError:
    return InputError(f"{folder} is being written by another process; wait for it or stop it")
