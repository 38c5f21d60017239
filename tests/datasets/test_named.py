"""CIFAR-100, Fashion-MNIST, black and white MNIST, ImageNet and Tiny-ImageNet, from files in their official form."""

import pickle

import numpy as np
import pytest
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.datasets import Preprocessing, ReadOptions, load

NAMES = [f"class{k}" for k in range(100)]


@pytest.fixture
def pictures(rng):
    return rng.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)


@pytest.mark.parametrize("folder", ["cifar100", "cifar-100-python", "cifar100/cifar-100-python"])
def test_cifar100_python(tmp_path, pictures, folder):
    (tmp_path / folder).mkdir(parents=True)
    batch = {b"data": pictures.reshape(4, 3072), b"fine_labels": [99, 0, 5, 7], b"coarse_labels": [1, 2, 3, 4]}
    (tmp_path / folder / "test").write_bytes(pickle.dumps(batch, protocol=2))
    meta = {b"fine_label_names": [name.encode() for name in NAMES], b"coarse_label_names": [b"x"]}
    (tmp_path / folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))
    data = load("cifar100", root=tmp_path)
    assert np.array_equal(data.inputs, pictures)
    assert (data.labels.tolist(), data.num_classes, data.class_names) == ([99, 0, 5, 7], 100, tuple(NAMES))


def test_cifar100_binary_has_the_official_length_or_is_refused(tmp_path, rng):
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary/fine_label_names.txt").write_text("\n".join(NAMES) + "\n")
    records = np.zeros((10_000, 2 + 3072), np.uint8)
    records[:, 1] = rng.integers(0, 100, 10_000)
    records[7, 2:] = 9
    (tmp_path / "cifar-100-binary/test.bin").write_bytes(records.tobytes())
    data = load("cifar100", root=tmp_path)
    assert np.array_equal(data.labels, records[:, 1])
    assert (data.inputs[7] == 9).all()
    (tmp_path / "cifar-100-binary/test.bin").write_bytes(records.tobytes()[:-1])
    with pytest.raises(InputError, match=r"should have 30740000 bytes, it has 30739999.*: replace it by a fresh copy"):
        load("cifar100", root=tmp_path)


def test_fashion_mnist_and_black_and_white_mnist(tmp_path, write, rng):
    images, labels = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8), np.array([9, 0, 3, 1, 1], np.uint8)
    images[0, 0, :3] = [0, 127, 128]
    write.mnist(tmp_path / "fashion-mnist", "test", images, labels, gz=True)
    write.mnist(tmp_path / "mnist", "test", images, labels)
    clothes = load("fashion-mnist", root=tmp_path)
    assert np.array_equal(clothes.inputs[:, 0], images)
    assert clothes.class_names[clothes.labels[0]] == "Ankle boot"
    white = load("mnist-binary", root=tmp_path)
    assert white.inputs[0, 0, 0, :3].tolist() == [0, 0, 255]
    assert np.array_equal(white.inputs[:, 0] > 0, images > 127.5)
    assert white.fingerprint != load("mnist", root=tmp_path).fingerprint


@pytest.fixture
def imagenet(tmp_path, write, rng):
    for k, (name, height, width) in enumerate(
        [("n01/ILSVRC2012_val_00000009.JPEG", 300, 280), ("n02/ILSVRC2012_val_00000001.JPEG", 256, 400),
         ("n02/ILSVRC2012_val_00000003.JPEG", 500, 375)]
    ):  # fmt: skip
        channels = 1 if k == 1 else 3  # a few of the real ones are grey
        write.image(tmp_path / "imagenet/val" / name, rng.integers(0, 256, (channels, height, width), dtype=np.uint8))
    return tmp_path


def test_imagenet_is_prepared_as_in_the_papers(imagenet):
    data = load("imagenet", root=imagenet)
    assert data.inputs.shape == (3, 3, 224, 224)
    assert data.labels.tolist() == [0, 1, 1]
    assert data.preprocessing.to_json() == {"resize": "256", "crop": "224", "filter": "bilinear"}
    with Image.open(imagenet / "imagenet" / data.input_name(2)) as image:
        small = image.resize((256, 341), Image.Resampling.BILINEAR).crop((16, 58, 240, 282))
    assert np.array_equal(data.inputs[2], np.asarray(small).transpose(2, 0, 1))
    grey = data.inputs[1]
    assert np.array_equal(grey[0], grey[1])
    assert np.array_equal(grey[0], grey[2])
    other = load("imagenet", root=imagenet, options=ReadOptions(Preprocessing(resize="64x64")))
    assert other.inputs.shape == (3, 3, 64, 64)
    assert other.fingerprint != data.fingerprint


def test_imagenet_names_its_classes_where_the_mapping_is(imagenet):
    mapping = imagenet / "imagenet/LOC_synset_mapping.txt"
    mapping.write_text("n00 nothing\nn01 tench, Tinca tinca\nn02 goldfish\n")
    data = load("imagenet", root=imagenet)
    assert data.class_names == ("nothing", "tench, Tinca tinca", "goldfish")
    assert data.labels.tolist() == [1, 2, 2]


def test_imagenet_without_folders_of_classes_says_what_to_do(tmp_path, write):
    with pytest.raises(InputError, match=f"needs the folder {tmp_path}/imagenet: put it there"):
        load("imagenet", root=tmp_path)
    write.image(tmp_path / "imagenet/val/ILSVRC2012_val_00000001.JPEG", np.zeros((3, 9, 9), np.uint8))
    with pytest.raises(InputError, match="not in a folder per class: sort them by the ground truth"):
        load("imagenet", root=tmp_path)
    with pytest.raises(InputError, match=f"has no folder {tmp_path}/imagenet/train"):
        load("imagenet", "train", root=tmp_path)


def test_tiny_imagenet_as_it_is_distributed(tmp_path, write, rng):
    top, images = tmp_path / "tiny-imagenet-200", rng.integers(0, 256, (5, 3, 64, 64), dtype=np.uint8)
    for k in range(3):
        write.image(top / f"val/images/val_{k}.png", images[k])
    (top / "val/val_annotations.txt").write_text(
        "val_0.png\tn09\t0\t0\t9\t9\nval_2.png\tn01\t1\t1\t2\t2\nval_1.png\tn09\t\n"
    )
    (top / "words.txt").write_text("n01\tgoldfish\nn05\tcow\nn09\tlion, king\n")
    for k, name in ((3, "n01"), (4, "n09")):
        write.image(top / f"train/{name}/images/{name}_0.png", images[k])
    test, train = load("tiny-imagenet", root=tmp_path), load("tiny-imagenet", "train", root=tmp_path)
    assert (test.class_names, test.labels.tolist()) == (("goldfish", "lion, king"), [0, 1, 1])
    assert np.array_equal(np.asarray(test.inputs), images[[2, 0, 1]])
    assert (train.class_names, train.labels.tolist()) == (test.class_names, [0, 1])
    assert np.array_equal(np.asarray(train.inputs), images[3:])
    (top / "val/images/val_1.png").unlink()
    with pytest.raises(
        InputError, match=r"it names the image val_1\.png, which is not in .*: replace it by a fresh copy"
    ):
        load("tiny-imagenet", root=tmp_path)
