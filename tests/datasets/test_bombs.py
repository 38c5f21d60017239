"""Small files that unpack to gigabytes, and things that are no files, are refused in one sentence and little memory."""

import gzip
import io
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import load
from smoothcert.datasets.inert_pickle import load_plain

LITTLE = 2**31  # bytes that a process may use beyond those it starts with


def gz_bomb(root: Path) -> str:
    with gzip.open(root / "t10k-images-idx3-ubyte.gz", "wb", compresslevel=9) as file:
        file.write(struct.pack(">4I", 0x803, 2**21, 28, 28))
        for _ in range(3 * 2**10):
            file.write(bytes(2**20))
    (root / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 0))
    return "mnist"


def mat_bomb(root: Path) -> str:
    stream, packed = zlib.compressobj(9), io.BytesIO()
    packed.write(stream.compress(struct.pack("<2I", 14, 3 * 2**30)))
    for _ in range(3 * 2**10):
        packed.write(stream.compress(bytes(2**20)))
    packed.write(stream.flush())
    element = struct.pack("<2I", 15, len(packed.getvalue())) + packed.getvalue()
    (root / "test_32x32.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + element)
    return "svhn"


def npz_bomb(root: Path) -> str:
    """Its directory says that it unpacks to more than any machine has; its arrays' headers agree."""
    path = root / "own.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**44, 8, 8)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(2**20))
        archive.writestr("y.npy", header.getvalue())
    raw, at = bytearray(path.read_bytes()), path.read_bytes().index(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 2**32 - 2)
    end = raw.index(b"PK\x01\x02", at + 4)
    raw[end + 24 : end + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(raw)
    return str(path)


def pickle_bomb(root: Path) -> str:
    """One text of a megabyte, encoded ten thousand times."""
    text = b"X" + struct.pack("<I", 2**20) + b"a" * 2**20 + b"q\x00"
    call = b"c_codecs\nencode\nq\x01"
    again = b"h\x01h\x00U\x06latin1\x86R"
    (root / "test_batch").write_bytes(b"\x80\x02](" + text + call + again * 10_000 + b"e.")
    return "cifar10"


@pytest.mark.parametrize("make", [gz_bomb, mat_bomb, npz_bomb, pickle_bomb])
def test_a_bomb_is_refused_in_little_memory(make: Callable[[Path], str], tmp_path: Path) -> None:
    source = make(tmp_path)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2**23
    code = f"""
        import resource, sys
        from pathlib import Path
        from smoothcert.core.errors import InputError
        from smoothcert.datasets import load
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + {LITTLE}, held + {LITTLE}))
        try:
            load({source!r}, root=Path({str(tmp_path)!r}))
        except InputError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert "cannot be read" in done.stdout
    assert not any(words in done.stdout for words in ("MemoryError", "Unable to allocate")), "it was refused, not tried"


def test_bytes_of_old_protocols_are_still_read() -> None:
    batch = {"data": b"\xff" * 100, "filenames": [b"a" * 20 for _ in range(50)]}
    for protocol in range(6):
        assert load_plain(pickle.dumps(batch, protocol=protocol)) in (
            batch,
            {key.encode(): value for key, value in batch.items()},
        )


def test_an_image_that_is_a_pipe_or_a_device_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "a" / "0.png")
    (tmp_path / "b" / "0.png").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"a/0.png cannot be read as an 8-bit image \(.*Not a regular file"):
        load(tmp_path)
    (tmp_path / "a" / "0.png").unlink()
    (tmp_path / "a" / "0.png").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="Not a regular file"):
        load(tmp_path)


def test_names_that_are_no_text_are_shown_escaped(tmp_path: Path) -> None:
    from PIL import Image

    root = tmp_path / os.fsdecode(b"caf\xe9")
    for name in (b"cat\x1b[2J", b"d\xffg"):
        folder = root / os.fsdecode(name)
        folder.mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "0.png")
    data = load(root)
    assert data.name == "caf\\udce9"
    assert data.class_names == ("cat\\x1b[2J", "d\\udcffg")
    np.savez(root / os.fsdecode(b"x\xe9.npz"), x=np.zeros((2, 8, 8), np.uint8), y=np.arange(2))
    assert load(root / os.fsdecode(b"x\xe9.npz")).name == "x\\udce9"
