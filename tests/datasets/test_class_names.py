import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import ReadOptions, from_arrays, load, read_class_names, with_class_names


@pytest.fixture
def pets(tmp_path, write, rng):
    for name in ("dog/0.png", "cat/0.png", "cat/1.png"):
        write.image(tmp_path / "pets" / name, rng.integers(0, 256, (3, 4, 4), dtype=np.uint8))
    return tmp_path / "pets"


def test_folders_get_the_numbers_that_a_file_gives_them(pets, tmp_path):
    (tmp_path / "names.txt").write_text("bird\ndog\nfish\ncat\n\n")
    names = read_class_names(tmp_path / "names.txt")
    data = load(pets, options=ReadOptions(class_names=names))
    assert data.class_names == ("bird", "dog", "fish", "cat")
    assert data.labels.tolist() == [3, 3, 1]
    assert data.num_classes == 4


def test_a_line_may_say_more_than_the_folder(pets):
    data = with_class_names(load(pets), ["dog Canis familiaris", "cat Felis catus"], said_by="it")
    assert data.class_names == ("Canis familiaris", "Felis catus")
    assert data.labels.tolist() == [1, 1, 0]


def test_numbers_are_given_names():
    data = with_class_names(from_arrays(np.zeros((2, 3)), [0, 1]), ["no", "yes", "perhaps"], said_by="it")
    assert (data.class_names, data.labels.tolist()) == (("no", "yes", "perhaps"), [0, 1])
    with pytest.raises(InputError, match="it has 2 classes, but arrays has 3; name all of them"):
        with_class_names(from_arrays(np.zeros((2, 3)), [0, 2]), ["no", "yes"], said_by="it")


def test_a_class_that_is_not_named_is_refused(pets):
    with pytest.raises(InputError, match="the model has no class 'dog', which pets has; give the names of all classes"):
        with_class_names(load(pets), ["cat", "cow"], said_by="the model")


@pytest.mark.parametrize("text", ["", "one\n", "a\nb\na\n", "a\n\nb\n"])
def test_a_file_of_names_has_at_least_two_different_ones(tmp_path, text):
    (tmp_path / "names.txt").write_text(text)
    with pytest.raises(InputError, match=r"names\.txt must have at least two different names, one per line"):
        read_class_names(tmp_path / "names.txt")
