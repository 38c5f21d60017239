import numpy as np
import pytest
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.datasets import Preprocessing, load

STEPS = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))  # 4 wide, 3 high


def pixels(how: Preprocessing, image: Image.Image = STEPS) -> list[list[int]]:
    found = how.apply(image)
    assert found.size == how.size_of(image.size)
    return np.asarray(found).tolist()


def test_the_crop_is_at_the_centre():
    assert pixels(Preprocessing(crop="2x1")) == [[5, 6]]
    assert pixels(Preprocessing(crop="2")) == [[1, 2], [5, 6]]
    assert pixels(Preprocessing(crop="4x3")) == np.asarray(STEPS).tolist()


def test_halving_is_worked_out_by_hand():
    """Bilinear with a filter twice as wide: weights 1, 3, 3, 1 over 8 inside, and 3, 3, 1 over 7 at an end."""
    row = np.array([[0, 16, 32, 48, 160, 240]], dtype=np.uint8)
    found = pixels(Preprocessing(resize="3x1"), Image.fromarray(row))
    by_hand = [(3 * 0 + 3 * 16 + 32) / 7, (16 + 3 * 32 + 3 * 48 + 160) / 8, (48 + 3 * 160 + 3 * 240) / 7]
    assert found == [[round(value) for value in by_hand]]


@pytest.mark.parametrize(
    ("size", "resize", "becomes"),
    [((500, 375), "256", (341, 256)), ((375, 500), "256", (256, 341)), ((8, 8), "3", (3, 3)),
     ((9000, 1), "1", (9000, 1)), ((64, 48), "10x20", (10, 20)), ((300, 2), "1", (150, 1)),
     ((2, 300), " 1 ", (1, 150))],
)  # fmt: skip
def test_the_shorter_side_is_as_asked_and_the_longer_in_proportion(size, resize, becomes):
    assert Preprocessing(resize=resize).size_of(size) == becomes


def test_it_is_written_down_as_it_is_typed_and_read_back():
    how = Preprocessing(resize="256", crop="224x200")
    assert how.to_json() == {"resize": "256", "crop": "224x200", "filter": "bilinear"}
    assert Preprocessing.from_json(how.to_json()) == how
    assert Preprocessing.from_json(None) == Preprocessing() == Preprocessing.from_json({})
    assert not Preprocessing()
    with pytest.raises(InputError, match="cannot prepare images by"):
        Preprocessing.from_json({"resize": "8", "filter": "bicubic"})


@pytest.mark.parametrize("text", ["0", "-3", "x", "8x", "8x8x8", "1e3", "9999", "8,8", ""])
@pytest.mark.parametrize("name", ["resize", "crop"])
def test_sizes_that_cannot_be_are_refused(name, text):
    with pytest.raises(InputError, match=f"--{name} must be pixels such as 224, or width and height such as 320x240"):
        Preprocessing(**{name: text})


def test_only_image_files_are_prepared():
    with pytest.raises(InputError, match="--resize and --crop go with image files, and digits has inputs of shape"):
        load("digits").prepared(Preprocessing(resize="4"))
