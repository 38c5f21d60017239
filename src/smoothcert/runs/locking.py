"""One at a time: whoever makes a file that must not be there yet, and whoever writes to one that others may write to.

By hard links and `flock` where the file system has them. Where it has not (FAT, some network and FUSE mounts), by files
that are made only if they are not there; what a kill leaves behind of those is named, with the way out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from smoothcert.core.errors import InputError

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


def create_whole(path: Path, content: bytes, draft_prefix: str) -> bool:
    """Make a file that appears at once and whole; False, and nothing is changed, where one is there already."""
    draft = path.with_name(f"{draft_prefix}{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename it fails where somebody was faster
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with _lock_file(path.with_name(f"{draft_prefix}lock")):
                if path.exists():
                    return False
                os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return True


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
