"""A file appears whole or not at all; drafts of the dead are cleared, those of the living are not."""

import errno
import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from smoothcert.core import files
from smoothcert.core.errors import InputError, sentence
from smoothcert.core.files import DRAFT, clear_drafts, lock, read_file, write_whole, writing_whole


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(DRAFT)]


def test_it_is_there_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)  # the longest name there is: a draft must not be longer
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def half() -> None:
        with writing_whole(path) as file:
            file.write(b"new")
            file.flush()
            assert path.read_bytes() == b"old"
            assert drafts(tmp_path)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert path.read_bytes() == b"old"
    assert drafts(tmp_path) == []


def test_of_many_who_make_a_new_file_one_does(tmp_path: Path) -> None:
    made, path = [], tmp_path / "file"
    start = threading.Barrier(8)

    def make(number: int) -> None:
        start.wait()
        try:
            write_whole(path, str(number).encode(), new=True)
            made.append(str(number))
        except FileExistsError:
            pass

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [path.read_text()]
    assert drafts(tmp_path) == []


def test_without_hard_links_a_new_file_still_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    write_whole(tmp_path / "file", b"first", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", b"second", new=True)
    assert (tmp_path / "file").read_bytes() == b"first"
    assert drafts(tmp_path) == []


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "file")
    write_whole(link, b"content")
    assert (link.is_symlink(), (tmp_path / "real" / "file").read_bytes()) == (True, b"content")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name, words in (("pipe", "is a device or a pipe"), ("null", "is a device or a pipe"), ("real", "is a folder")):
        with pytest.raises(InputError, match=words):
            write_whole(tmp_path / name, b"content")
    assert not os.path.isfile("/dev/null")


def killed_writer(path: Path) -> None:
    """A process that is killed when half of the file is written."""
    child = os.fork()
    if not child:
        with writing_whole(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_the_next_writer_clears_what_a_killed_one_left(tmp_path: Path) -> None:
    killed_writer(tmp_path / "file")
    killed_writer(tmp_path / "file")
    (tmp_path / ".mine").touch()
    assert len(drafts(tmp_path)) == 1, "the second cleared what the first left"
    write_whole(tmp_path / "other", b"content")
    assert {path.name for path in tmp_path.iterdir()} == {"other", ".mine"}


def test_drafts_of_the_living_stay(tmp_path: Path) -> None:
    with writing_whole(tmp_path / "file") as file:
        file.write(b"content")
        write_whole(tmp_path / "other", b"other")
        clear_drafts(tmp_path)
        assert len(drafts(tmp_path)) == 1
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_draft_that_was_cleared_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one moment in which a living draft has no lock."""
    flock, cleared = fcntl.flock, []

    def late(file: Any, operation: int) -> None:
        if operation == fcntl.LOCK_EX and not cleared:
            cleared.extend(drafts(tmp_path))
            clear_drafts(tmp_path)
            assert drafts(tmp_path) == []
        flock(file, operation)

    monkeypatch.setattr(files.fcntl, "flock", late)
    write_whole(tmp_path / "file", b"content")
    assert len(cleared) == 1
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_one_sentence_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space") as caught:
        write_whole(tmp_path / "file", b"content")
    assert sentence(caught.value) == f"No space left on device: {tmp_path / 'file'}"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "no" / "file", b"content")
    assert sentence(caught.value) == f"No such file or directory: {tmp_path / 'no' / 'file'}"


def test_a_lock_is_taken_once_and_where_there_are_none_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    with path.open("ab") as one, path.open("ab") as two:
        lock(one, path, busy="busy")
        with pytest.raises(InputError, match=r"^busy$"):
            lock(two, path, busy="busy")

    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    with path.open("ab") as one, pytest.raises(InputError, match=r"cannot lock files.*choose a folder on a local disk"):
        lock(one, path, busy="busy")
    write_whole(tmp_path / "file", b"content")  # one writer needs none
    assert (tmp_path / "file").read_bytes() == b"content"


def test_only_regular_files_of_a_bearable_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**50 if os.uname().sysname == "Linux" and _sparse(tmp_path) else 2**20)
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "fits").write_bytes(b"1234")
    for name, words in (("pipe", "Not a regular file"), ("zero", "Not a regular"), (".", "Is a directory")):
        with pytest.raises(OSError, match=words):
            read_file(tmp_path / name)
    with pytest.raises(OSError, match="File too large"):
        read_file(tmp_path / "huge", most=2**19)
    assert read_file(tmp_path / "fits", most=4) == b"1234"
    with pytest.raises(OSError, match=r"File too large \(4 bytes, at most 3 are read\)"):
        read_file(tmp_path / "fits", most=3)


def _sparse(folder: Path) -> bool:
    """Whether the file system has files of 2^50 bytes."""
    try:
        with (folder / "probe").open("wb") as file:
            file.truncate(2**50)
    except OSError:
        return False
    finally:
        (folder / "probe").unlink()
    return True
