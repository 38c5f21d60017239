"""Files that appear whole or not at all, one writer at a time, and nothing read that is no file."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gzip
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, BinaryIO

from smoothcert.core.errors import InputError

DRAFT = ".smoothcert-"
"""How the name of a file begins that is being written; it goes on with a number that nobody can guess."""

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_HERE, _WITHOUT_REPLACING = -100, 1  # AT_FDCWD, RENAME_NOREPLACE of linux/fs.h


def write_whole(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write a file that appears at once and whole, or not at all, and is on the disk when this returns.

    With `new`, a file that is there already stays as it is, and `FileExistsError` is raised: of several who make the
    same file at the same moment, one does.
    """
    with writing_whole(path, new=new) as file:
        file.write(content)


@contextmanager
def writing_whole(path: Path, *, new: bool = False) -> Iterator[BinaryIO]:
    """The same for whoever writes bit by bit: the file has its name when the block ends, and never if it fails.

    A link is followed. What is not a regular file (a device, a folder) is refused before anything is written, because
    it would be replaced. An `OSError` names `path`, never the draft.
    """
    place = path if new else _place(path)
    clear_drafts(place.parent)
    draft: Path | None = None
    try:
        draft, file = _draft(place.parent)
        with file:  # its lock is held until it has its name
            yield file
            file.flush()
            os.fsync(file.fileno())
            _name(draft, place, new=new)
        flush_folder(place.parent)
    except OSError as error:
        if error.errno is None or (error.filename is not None and not _of_draft(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def clear_drafts(folder: Path) -> None:
    """Remove what killed writers left in a folder, and nothing of those who still write: these hold a lock."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(DRAFT) and entry.is_file(follow_symlinks=False):
                with suppress(OSError), open(entry.path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def flush_folder(folder: Path) -> None:
    """The name of a new file is safe only when its folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems keep names by themselves
            raise
    finally:
        os.close(descriptor)


def lock(file: IO[bytes] | IO[str], path: Path, *, busy: str) -> None:
    """Take the one lock on an open file, until it is closed; `busy` is the sentence if somebody has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(busy) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise InputError(
            f"{path} is on a file system that cannot lock files, so two processes might write there at once; "
            "choose a folder on a local disk"
        ) from None


@contextmanager
def reading_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read it; a folder, a device or a pipe is an `OSError` at once and never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # of a pipe nobody may ever write
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(code, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file", str(path))
        yield file


def read_file(path: Path, *, most: int | None = None) -> bytes:
    """The content of a regular file; one of more than `most` bytes, or than this machine's memory, is an `OSError`."""
    with reading_file(path) as file:
        limit, size = memory_size() if most is None else most, os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(errno.EFBIG, f"File too large ({size} bytes, at most {limit} are read)", str(path))
        return file.read()


def read_inflated(path: Path, *, most: int) -> bytes:
    """The content of a file, unpacked where its name ends in .gz; more than `most` bytes are a ValueError.

    No more than that is ever held: a few kilobytes of gzip can unpack to gigabytes.
    """
    content = bytearray()
    with reading_file(path) as file, gzip.open(file) if path.suffix == ".gz" else nullcontext(file) as stream:
        while part := stream.read(2**20):
            content += part
            if len(content) > most:
                raise ValueError(f"it holds more than the {most} bytes that such a file can have")
    return bytes(content)


def memory_size() -> int:
    """Bytes of memory that this machine has: what is larger cannot be worked on, whatever it is."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_draft(name: str | bytes | int) -> bool:
    return not isinstance(name, int) and Path(os.fsdecode(name)).name.startswith(DRAFT)


def _place(path: Path) -> Path:
    """Where a file of that name goes: at the end of a link."""
    place = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        mode = os.stat(place).st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path} is a folder; give the name of a file")
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is a device or a pipe, which cannot be written whole; give the name of a file")
    return place


def _draft(folder: Path) -> tuple[Path, BinaryIO]:
    """A new file under a name that nobody can guess, with a lock that says that its writer lives."""
    while True:
        draft = folder / f"{DRAFT}{secrets.token_hex(8)}"
        file = draft.open("xb")
        with suppress(OSError):  # without locks, drafts of the dead stay, and those of the living too
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return draft, file
        file.close()  # somebody who cleared drafts came between opening and locking


def _name(draft: Path, place: Path, *, new: bool) -> None:
    if not new:
        os.replace(draft, place)
        return
    try:
        os.link(draft, place)  # unlike a rename it fails where somebody was faster
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_without_replacing(draft, place)


def _rename_without_replacing(old: Path, new: Path) -> None:
    """For file systems without hard links (FAT, some network drives)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        if rename(_HERE, os.fsencode(old), _HERE, os.fsencode(new), _WITHOUT_REPLACING) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(code, os.strerror(code), str(new))
    raise InputError(
        f"{new} is on a file system with neither hard links nor renames that do not replace; choose a local disk"
    )
