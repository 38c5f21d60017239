import re

import numpy as np
import pytest
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.datasets import Preprocessing, ReadOptions, load


@pytest.fixture
def colour(rng):
    return rng.integers(0, 256, (4, 3, 6, 5), dtype=np.uint8)


NAMES = ("cat/1.png", "cat/2.PNG", "dog/0.bmp", "dog/a.ppm")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("part", ["", "test"])
def test_reads_back_what_was_written(tmp_path, write, colour, channels, part):
    images = colour[:, :channels]
    names = [name.replace("ppm", "pgm") if channels == 1 else name for name in NAMES]
    for name, image in reversed(list(zip(names, images, strict=True))):
        write.image(tmp_path / "pets" / part / name, image)
    data = load(str(tmp_path / "pets"))
    assert np.array_equal(data.inputs, images)
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert (data.name, data.split, data.num_classes, data.input_range) == ("pets", "test", 2, (0, 1))
    assert data.class_names == ("cat", "dog")


def test_jpeg_and_webp_come_back_as_pillow_decodes_them(tmp_path, write, colour):
    jpeg = write.image(tmp_path / "a/x.jpg", colour[0], quality=90)
    write.image(tmp_path / "b/x.webp", colour[1], lossless=1)
    data = load(tmp_path)
    assert np.array_equal(data.inputs[0], np.asarray(Image.open(jpeg)).transpose(2, 0, 1))
    assert np.array_equal(data.inputs[1], colour[1])


def test_one_colour_image_makes_all_rgb(tmp_path, write, colour):
    write.image(tmp_path / "a/0.png", colour[0, :1])
    write.image(tmp_path / "b/0.png", colour[1])
    data = load(tmp_path)
    assert np.array_equal(data.inputs[0], np.repeat(colour[0, :1], 3, axis=0))
    assert np.array_equal(data.inputs[1], colour[1])


def test_splits_share_class_numbers_and_colour(tmp_path, write, colour):
    for k, name in enumerate(("train/a/0.png", "train/b/0.png", "train/c/0.png")):
        write.image(tmp_path / name, colour[k])
    write.image(tmp_path / "test/c/0.png", colour[3, :1])
    test = load(tmp_path)
    assert test.labels.tolist() == [2]
    assert test.class_names == ("a", "b", "c")
    assert test.inputs.shape == (1, 3, 6, 5)
    assert np.array_equal(load(tmp_path, "train").inputs, colour[:3])


def test_train_may_be_the_name_of_a_class(tmp_path, write, colour):
    write.image(tmp_path / "bus/0.png", colour[0])
    write.image(tmp_path / "train/0.png", colour[1])
    assert load(tmp_path, "train").class_names == ("bus", "train")
    assert len(load(tmp_path, "test")) == 2


def test_other_files_are_passed_over(tmp_path, write, colour):
    for k, name in enumerate(NAMES):
        write.image(tmp_path / name, colour[k])
    for name in ("cat/Thumbs.db", "cat/._1.png", "README.txt", ".cache/x.png", "__MACOSX/x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no image")
    assert len(load(tmp_path)) == 4


@pytest.mark.parametrize("mode", ["1", "LA", "P", "RGBA", "CMYK"])
def test_other_modes_of_8_bits_are_converted(tmp_path, write, mode):
    white = np.full((3, 6, 5), 255, np.uint8)
    write.image(tmp_path / "a/0.png", white)
    suffix = "jpg" if mode == "CMYK" else "png"
    (tmp_path / "b").mkdir()
    Image.fromarray(white.transpose(1, 2, 0)).convert(mode).save(tmp_path / f"b/0.{suffix}")
    assert np.asarray(load(tmp_path).inputs).min() == 255


def refused(folder, split="test"):
    """What is said at once, or when the images are read."""
    with pytest.raises(InputError) as refusal:
        np.asarray(load(folder, split).inputs)
    return str(refusal.value)


@pytest.fixture
def pets(tmp_path, write, colour):
    for k, name in enumerate(NAMES):
        write.image(tmp_path / name, colour[k])
    return tmp_path


def test_another_size_is_named(pets, write):
    path = write.image(pets / "dog/b.png", np.zeros((3, 6, 7), np.uint8))
    wanted = f"{path} is 7x6 pixels where the first is 5x6: give --resize and --crop, which bring all to one size"
    assert refused(pets) == wanted


def test_a_broken_image_is_named(pets):
    path = pets / "dog/b.png"
    path.write_bytes(b"no image")
    assert re.fullmatch(
        rf"{path} cannot be read as an 8-bit image \(.*\): repair or convert it, or remove .*", refused(pets)
    )


def test_only_images_that_are_asked_for_are_read(pets):
    (pets / "dog/b.png").write_bytes(b"no image")
    data = load(pets)
    assert len(data) == 5
    assert data.tensors([0, 3]).shape == (2, 3, 6, 5)


def test_16_bits_are_refused(pets):
    Image.fromarray(np.full((6, 5), 60_000, np.uint16)).save(pets / "dog/b.png")
    assert "dog/b.png" in refused(pets)
    assert "repair or convert it" in refused(pets)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_refused(pets, mode):
    Image.new(mode, (5, 6), (0,) * len(mode)).save(pets / "dog/b.png")
    assert "transparent pixels" in refused(pets)
    assert "dog/b.png" in refused(pets)


def test_an_image_of_another_format_behind_png_is_refused(pets):
    (pets / "dog/b.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 6\n%%EndComments\nshowpage\n")
    assert "dog/b.png" in refused(pets)


def test_an_empty_class_is_named(pets):
    (pets / "fish").mkdir()
    assert re.fullmatch(rf"{pets / 'fish'} .*holds no images.*: put images into it .* or remove it", refused(pets))


@pytest.mark.parametrize("names", [[], ["one/a.png"]], ids=["empty", "one class"])
def test_fewer_than_two_classes_are_refused_with_the_layout(tmp_path, write, colour, names):
    for name in names:
        write.image(tmp_path / name, colour[0])
    assert f"{tmp_path}/CLASS or {tmp_path}/test/CLASS" in refused(tmp_path)


def test_a_missing_split_is_named(tmp_path, write, colour):
    for k, name in enumerate(("train/a/0.png", "train/b/0.png")):
        write.image(tmp_path / name, colour[k])
    assert f"no split 'test': add {tmp_path}/test" in refused(tmp_path)


def test_a_folder_without_classes_is_unlabelled(tmp_path, write, colour):
    for k, name in enumerate(("b.png", "a.png")):
        write.image(tmp_path / name, colour[k])
    data = load(tmp_path)
    assert data.unlabelled
    assert (data.num_classes, data.class_names) == (0, ())
    assert np.array_equal(np.asarray(data.inputs), colour[[1, 0]])


def test_images_of_differing_sizes_are_brought_to_one(tmp_path, write, rng):
    for k, side in enumerate((20, 31, 48, 64)):
        write.image(tmp_path / f"{'ab'[k % 2]}/{k}.png", rng.integers(0, 256, (3, side, 64 - k), dtype=np.uint8))
    how = Preprocessing(resize="16", crop="12x10")
    data = load(tmp_path, options=ReadOptions(how))
    assert data.inputs.shape == (4, 3, 10, 12)
    assert data.preprocessing == how
    for index in range(4):
        with Image.open(tmp_path / data.input_name(index)) as image:
            short = min(image.size)
            small = image.resize((16 * image.width // short, 16 * image.height // short), Image.Resampling.BILINEAR)
            left, top = (small.width - 12) // 2, (small.height - 10) // 2
            expected = np.asarray(small.crop((left, top, left + 12, top + 10))).transpose(2, 0, 1)
        assert np.array_equal(data.inputs[index], expected)
    assert data.fingerprint != load(tmp_path, options=ReadOptions(Preprocessing(resize="16", crop="10"))).fingerprint


def test_the_fingerprint_sees_names_sizes_and_labels_and_not_the_place(tmp_path, write, colour):
    for where in ("here", "there"):
        for k, name in enumerate(NAMES):
            write.image(tmp_path / where / "pets" / name, colour[k])
    here, there = (load(tmp_path / where / "pets") for where in ("here", "there"))
    assert here.fingerprint == there.fingerprint
    (tmp_path / "there/pets/cat/1.png").rename(tmp_path / "there/pets/cat/3.png")
    assert load(tmp_path / "there" / "pets").fingerprint != here.fingerprint
    (tmp_path / "there/pets/cat/3.png").rename(tmp_path / "there/pets/dog/1.png")
    assert load(tmp_path / "there" / "pets").fingerprint != here.fingerprint
