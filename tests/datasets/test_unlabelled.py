"""What `--input` takes, and that it takes nothing else."""

import os
import pickle
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.datasets import Preprocessing, read_unlabelled
from smoothcert.datasets.images import MOST_PIXELS

EPS = """%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(touched) (w) file closefile
showpage
%%EOF
"""


def read_inputs(path: Path, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """All of a file's inputs, as the model gets them, and whether they are 8-bit."""
    data = read_unlabelled([path], shape)
    assert data.unlabelled
    return data.tensors(range(len(data))).numpy(), data.inputs.dtype == np.uint8


def refused(path: Path, shape: tuple[int, ...] = (1, 8, 8)) -> str:
    with pytest.raises(InputError) as caught:
        read_inputs(path, shape)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert path.name in sentence
    return sentence


@pytest.mark.parametrize("suffix", ["png", "bmp", "pgm", "webp"])
def test_images_come_back(tmp_path: Path, suffix: str, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
    options = {"lossless": True} if suffix == "webp" else {}
    Image.fromarray(pixels).save(tmp_path / f"x.{suffix}", **options)
    inputs, eight_bit = read_inputs(tmp_path / f"x.{suffix}", (1, 8, 8))
    assert (inputs.dtype, inputs.shape, eight_bit) == (np.float32, (1, 1, 8, 8), True)
    assert np.array_equal(inputs[0, 0], pixels.astype(np.float32) / np.float32(255))
    if suffix != "webp":  # which knows colour alone
        assert "a grey image where colour ones are wanted" in refused(tmp_path / f"x.{suffix}", (3, 8, 8))


@pytest.mark.parametrize("dtype", ["u1", "<f4", ">f8", "f2"])
def test_arrays_come_back(tmp_path: Path, dtype: str) -> None:
    array = np.arange(3 * 64).reshape(3, 1, 8, 8).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    inputs, eight_bit = read_inputs(tmp_path / "x.npy", (1, 8, 8))
    assert eight_bit == (dtype == "u1")
    assert np.array_equal(inputs, array.astype(np.float32) / np.float32(255 if eight_bit else 1))
    np.save(tmp_path / "one.npy", array[0])
    assert np.array_equal(read_inputs(tmp_path / "one.npy", (1, 8, 8))[0], inputs[:1])
    assert "must hold inputs of shape (1, 9, 8)" in refused(tmp_path / "x.npy", (1, 9, 8))


def test_an_eps_named_png_never_reaches_ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow starts `gs` for it; here anything of that name on the PATH leaves a trace."""
    (tmp_path / "bin").mkdir()
    gs = tmp_path / "bin" / "gs"
    gs.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 0\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert shutil.which("gs") == str(gs)
    (tmp_path / "x.png").write_text(EPS)
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    with pytest.raises(OSError, match=r"."), Image.open(tmp_path / "x.png") as image:
        image.load()
    assert (tmp_path / "started").exists(), "left alone, Pillow starts it"
    (tmp_path / "started").unlink()
    assert "cannot be read as an image, a folder of images or an .npy array" in refused(tmp_path / "x.png")
    assert not (tmp_path / "started").exists()


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(2**14, 2**14), (2**13 + 1, 2**13), (2**31 - 1, 2**31 - 1)])
def test_a_png_that_inflates_to_gigabytes_is_refused_by_its_header(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "x.png").write_bytes(png(*size))
    assert size[0] * size[1] > MOST_PIXELS
    assert "cannot be read" in refused(tmp_path / "x.png")


def test_an_image_of_another_size_is_refused_before_its_pixels_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png(2**13, 2**13))  # without any: reading them would be another sentence
    sentence = refused(tmp_path / "x.png")
    assert "must hold inputs of shape (1, 8, 8), but is an image of 8192x8192 pixels; give --resize 8x8" in sentence


def test_an_npy_whose_header_promises_more_than_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((2, 1, 8, 8), np.float32))
    whole = path.read_bytes()
    for shape in ("(2**50, 8, 8)", f"({2**50}, 1, 8, 8)", f"({2**62}, {2**62})", "(-1, 1, 8, 8)", "(3, 1, 8, 8)"):
        old = b"(2, 1, 8, 8), }"
        new = (shape + ", }").encode()
        at = whole.index(old)
        path.write_bytes(whole[:at] + new + whole[at + len(new) :] if len(new) > len(old) else whole.replace(old, new))
        assert "cannot be read" in refused(path)


def test_nothing_in_an_array_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "ran"),))

    array = np.empty(1, dtype=object)
    array[0] = Bomb()
    np.save(tmp_path / "objects.npy", array, allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Bomb()))
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 8, 8), np.uint8))
    (tmp_path / "x.npz").rename(tmp_path / "archive.npy")
    for name in ("objects.npy", "pickle.npy", "archive.npy"):
        refused(tmp_path / name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("suffix", ["png", "npy"])
def test_what_is_no_file_is_one_sentence_at_once(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"folder.{suffix}").mkdir()
    (tmp_path / f"zero.{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"loop.{suffix}").symlink_to(f"loop.{suffix}")
    for name, words in [
        ("pipe", "Not a regular file"),
        ("folder", "holds no images"),
        ("zero", "Not a regular file"),
        ("loop", "symbolic links"),
        ("missing", "No such file"),
    ]:
        assert words in refused(tmp_path / f"{name}.{suffix}")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9\x1b[2J\n.png")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(path)
    assert read_inputs(path, (1, 8, 8))[0].shape == (1, 1, 8, 8)
    path.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"caf\\udce9\\x1b\[2J\\n\.png cannot be read"):
        read_inputs(path, (1, 8, 8))


def test_images_folders_and_arrays_are_read_one_after_the_other(tmp_path: Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (4, 8, 8), dtype=np.uint8)
    (tmp_path / "some").mkdir()
    for name, image in zip(("some/b.png", "some/a.png", "c.png"), pixels, strict=False):
        Image.fromarray(image).save(tmp_path / name)
    np.save(tmp_path / "d.npy", pixels[3:, None])
    paths = [tmp_path / name for name in ("c.png", "some", "d.npy")]
    data = read_unlabelled(paths, (1, 8, 8))
    assert np.array_equal(np.asarray(data.inputs)[:, 0], pixels[[2, 1, 0, 3]])
    assert [data.input_name(i) for i in range(4)] == [
        str(tmp_path / name) for name in ("c.png", "some/a.png", "some/b.png", "d.npy")
    ]
    np.save(tmp_path / "d.npy", pixels[3:, None].astype(np.float64) / 511)  # floats among 8-bit images
    mixed = read_unlabelled(paths, (1, 8, 8))
    assert (mixed.inputs.dtype, mixed.input_range) == (np.float32, None)
    assert np.array_equal(mixed.tensors([0])[0, 0].numpy(), pixels[2].astype(np.float32) / np.float32(255))
    assert np.array_equal(mixed.tensors([3])[0, 0].numpy(), (pixels[3] / 511).astype(np.float32))
    assert mixed.fingerprint != data.fingerprint


def test_a_colour_picture_for_a_grey_model_is_refused_and_not_converted(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8, 3), (9, 9, 10), np.uint8)).save(tmp_path / "x.png")
    assert "a colour image where grey ones are wanted; convert it yourself" in refused(tmp_path / "x.png")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "grey.png")
    data = read_unlabelled([tmp_path], (1, 8, 8))  # of a folder, when it is read
    with pytest.raises(InputError, match=r"x\.png is a colour image"):
        data.tensors([1])
    with pytest.raises(InputError, match=r"grey\.png holds inputs of shape \(1, 8, 8\) where .*x\.png holds"):
        read_unlabelled([tmp_path / "x.png", tmp_path / "grey.png"])


def test_a_number_that_is_none_is_found_when_it_is_read(tmp_path: Path) -> None:
    rows = np.ones((5, 3), np.float32)
    rows[3, 1] = np.nan
    np.save(tmp_path / "x.npy", rows)
    data = read_unlabelled([tmp_path / "x.npy"], (3,))
    assert data.tensors([0, 2]).shape == (2, 3)
    with pytest.raises(InputError, match="finite float32 numbers, got another in row 3"):
        data.tensors([2, 3])


def test_resized_inputs_fit(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((20, 30), np.uint8)).save(tmp_path / "x.png")
    data = read_unlabelled([tmp_path / "x.png"], (1, 8, 8), Preprocessing(resize="8", crop="8"))
    assert data.tensors([0]).shape == (1, 1, 8, 8)
    with pytest.raises(InputError, match=r"is an image of 12x8 pixels after --resize and --crop; give --resize 8x8"):
        read_unlabelled([tmp_path / "x.png"], (1, 8, 8), Preprocessing(resize="8"))
