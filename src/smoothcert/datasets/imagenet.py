"""ImageNet (Russakovsky et al. 2015) and Tiny-ImageNet, from their folders; images are read when they are asked for."""

from pathlib import Path

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file
from smoothcert.core.text import visible
from smoothcert.datasets.class_names import with_class_names
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.files import FRESH_COPY, reading
from smoothcert.datasets.folder import Listed, classes_of, listed, subfolders
from smoothcert.datasets.preprocessing import Preprocessing
from smoothcert.datasets.registry import register

FOLDERS = ("imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC")
TINY_FOLDERS = ("tiny-imagenet-200", "tiny-imagenet")
PARTS = {"train": ("train",), "test": ("val", "validation")}  # labels of its own test set were never published
MAPPING = "LOC_synset_mapping.txt"  # n01440764 tench, Tinca tinca
USUAL = Preprocessing(resize="256", crop="224")
MOST_BYTES = 2**25


@register("imagenet")
def imagenet(split: str, root: Path) -> Dataset:
    """root/imagenet/train/CLASS/*.JPEG and root/imagenet/val/CLASS/*.JPEG; test means val, as in all papers.

    Shorter side 256, then the central 224x224 (Cohen et al. 2019), unless --resize or --crop say otherwise. Classes are
    numbered by their WordNet ids, images by name: so image 0, 100, 200, ... are those of the published logs. Names are
    those of LOC_synset_mapping.txt if it lies beside the folders, else the ids.
    """
    top = _find("imagenet", root, FOLDERS)
    folder = next((top / name for name in PARTS[split] if (top / name).is_dir()), None)
    if folder is None:
        raise InputError(f"source 'imagenet' has no folder {top / PARTS[split][0]}: put the images there")
    classes = {path.name: listed(path) for path in subfolders(folder)}
    if not classes:
        raise InputError(
            f"the images in {folder} are not in a folder per class: sort them by the ground truth that comes with "
            "ImageNet, one folder per WordNet id"
        )
    data = classes_of(top, split, {split: classes}, "imagenet")
    data = data.prepared(USUAL)
    if (top / MAPPING).is_file():
        return with_class_names(data, _lines(top / MAPPING), said_by=str(top / MAPPING))
    return data


@register("tiny-imagenet")
def tiny_imagenet(split: str, root: Path) -> Dataset:
    """The 200 classes of 64x64 pixels in root/tiny-imagenet-200, as they are distributed; test means val.

    Classes are numbered by their WordNet ids, and named by words.txt; images of val by their file name within a class.
    """
    top = _find("tiny-imagenet", root, TINY_FOLDERS)
    if split == "train":
        classes = {path.name: listed(path / "images") for path in subfolders(top / "train")}
    else:
        classes = _annotated(top)
    data = classes_of(top, split, {split: classes}, "tiny-imagenet")
    words = top / "words.txt"
    if not words.is_file():
        return data
    known = dict(line.split("\t", 1) for line in _lines(words) if "\t" in line)
    names = [f"{wordnet} {known.get(wordnet, wordnet)}" for wordnet in data.class_names]
    return with_class_names(data, names, said_by=str(words))


def _annotated(top: Path) -> dict[str, Listed]:
    """The images of val by class: they lie in one folder, and val_annotations.txt says of which class each is."""
    path, images = top / "val" / "val_annotations.txt", listed(top / "val" / "images")
    size = dict(zip(images.names, images.sizes, strict=True))
    files: dict[str, list[str]] = {}
    with reading(path, kind="the classes of Tiny-ImageNet's images", remedy=FRESH_COPY):
        for line in _lines(path):
            name, wordnet = line.split("\t")[:2]
            if name not in size:
                raise ValueError(f"it names the image {name}, which is not in {images.path}")
            files.setdefault(wordnet, []).append(name)
    return {
        wordnet: Listed(images.path, tuple(sorted(names)), tuple(size[name] for name in sorted(names)))
        for wordnet, names in sorted(files.items())
    }


def _find(source: str, root: Path, folders: tuple[str, ...]) -> Path:
    found = next((root / name for name in folders if (root / name).is_dir()), None)
    if found is None:
        place = (root / folders[0]).absolute()
        raise InputError(
            f"source {source!r} needs the folder {place}: put it there, or give --data-root (root= in Python), or set "
            "SMOOTHCERT_DATA, to the folder that holds it"
        )
    return found


def _lines(path: Path) -> list[str]:
    with reading(path, kind="a list of names", remedy=FRESH_COPY):
        return [visible(line) for line in read_file(path, most=MOST_BYTES).decode("utf-8").splitlines() if line.strip()]
