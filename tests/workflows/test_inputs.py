"""Files that `predict` reads, and those it does not."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.workflows.inputs import read_inputs


def test_images_and_arrays(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", pixels[None] / 255)
    image, eight_bit = read_inputs(tmp_path / "a.png", (3, 8, 8))
    array, other = read_inputs(tmp_path / "a.npy", (3, 8, 8))
    assert (image.shape, eight_bit, other) == ((1, 3, 8, 8), True, False)
    assert np.allclose(image.numpy(), array.numpy())


@pytest.mark.parametrize("name", ["a.png", "a.eps"])
def test_formats_that_start_other_programs_are_never_opened(name: str, tmp_path: Path) -> None:
    """Pillow would hand a PostScript file to Ghostscript, whatever it is called."""
    path = tmp_path / name
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n")
    with Image.open(path) as image:
        assert image.format == "EPS"
    with pytest.raises(InputError, match=f"--input .*{name} cannot be read as an image"):
        read_inputs(path, (3, 8, 8))
