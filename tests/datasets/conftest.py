"""Writers of the formats that the readers read, kept independent of the readers."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat


class Write:
    """One function per format; each writes exactly the arrays that it is given."""

    @staticmethod
    def mnist(folder: Path, split: str, images: np.ndarray, labels: np.ndarray, *, gz: bool = False) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        prefix = {"train": "train", "test": "t10k"}[split]
        contents = {
            f"{prefix}-images-idx3-ubyte": struct.pack(">4I", 0x803, *images.shape) + images.tobytes(),
            f"{prefix}-labels-idx1-ubyte": struct.pack(">2I", 0x801, len(labels)) + bytes(labels.tolist()),
        }
        paths = []
        for name, raw in contents.items():
            paths.append(folder / (name + ".gz" if gz else name))
            paths[-1].write_bytes(gzip.compress(raw, mtime=0) if gz else raw)
        return paths

    @staticmethod
    def cifar_pickle(path: Path, images: np.ndarray, labels: np.ndarray, *, protocol: int) -> Path:
        """As Python 3 writes it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        names = [f"image_{k}.png" for k in range(len(labels))]
        batch = {"data": images.reshape(len(images), 3072), "labels": labels.tolist(), "filenames": names}
        path.write_bytes(pickle.dumps(batch, protocol=protocol))
        return path

    @staticmethod
    def cifar_python2(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
        """As Python 2 wrote the official batches, opcode by opcode."""

        def text(value: bytes) -> bytes:
            return b"U" + bytes([len(value)]) + value  # SHORT_BINSTRING

        n, raw = len(images), images.tobytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"\x80\x02}q\x01(" + text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03"
            + text(b"labels") + b"q\x04]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels.tolist()) + b"e"
            + text(b"data") + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85"
            + text(b"b") + b"\x87Rq\x09(K\x01M" + struct.pack("<H", n) + b"M" + struct.pack("<H", 3072) + b"\x86"
            + b"cnumpy\ndtype\nq\x0a" + text(b"u1") + b"K\x00K\x01\x87Rq\x0b(K\x03" + text(b"|")
            + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
            + text(b"filenames") + b"q\x0c]q\x0d(" + b"".join(text(b"image_%d.png" % k) for k in range(n)) + b"eu."
        )  # fmt: skip
        return path

    @staticmethod
    def cifar_binary(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True))
        )
        return path

    @staticmethod
    def svhn(path: Path, images: np.ndarray, digits: np.ndarray, *, compressed: bool = True) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = np.where(digits == 0, 10, digits).astype(np.uint8)[:, None]
        savemat(path, {"X": images.transpose(2, 3, 1, 0), "y": numbers}, do_compression=compressed)
        return path

    @staticmethod
    def image(path: Path, image: np.ndarray, **options: int) -> Path:
        """(1, H, W) or (3, H, W)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(path, **options)
        return path


@pytest.fixture
def write() -> type[Write]:
    return Write


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
