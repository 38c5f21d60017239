import json

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.models import Architecture

GOOD = {"name": "lenet", "num_classes": 10, "input_shape": (1, 28, 28)}


def test_json_round_trip():
    spec = Architecture("vgg16", 100, (3, 32, 32), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert Architecture.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert Architecture.from_json(GOOD) == Architecture(**GOOD)


def test_lists_and_numpy_integers_become_plain_values():
    spec = Architecture("lenet", np.int64(10), [1, 28, 28], [0], [1])
    assert spec == Architecture("lenet", 10, (1, 28, 28), (0.0,), (1.0,))
    assert type(spec.num_classes) is int
    assert hash(spec) == hash(Architecture("lenet", 10, (1, 28, 28), (0.0,), (1.0,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name must be"),
        ({"name": 3}, "name must be"),
        ({"num_classes": -1}, "num_classes must be a whole number.*got -1"),
        ({"num_classes": 2.5}, "num_classes must be a whole number.*got 2.5"),
        ({"num_classes": True}, "num_classes must be a whole number.*got True"),
        ({"num_classes": "10"}, "num_classes must be a whole number"),
        ({"num_classes": 10**30}, "num_classes must be a whole number"),
        ({"input_shape": (28, 28)}, r"\(channels, height, width\), got \(28, 28\)"),
        ({"input_shape": (1, 0, 28)}, "input_shape must be a whole number from 1"),
        ({"input_shape": 28}, "input_shape must be a sequence"),
        ({"input_shape": "abc"}, "input_shape must be a sequence"),
        ({"mean": (0.5,)}, r"one number per channel \(1\).*got 1 and 0"),
        ({"mean": (0.5, 0.5), "std": (0.5, 0.5)}, r"one number per channel \(1\).*got 2 and 2"),
        ({"mean": (0.5,), "std": (0.0,)}, "std must be positive"),
        ({"mean": (0.5,), "std": (-0.5,)}, "std must be positive"),
        ({"mean": (float("nan"),), "std": (0.5,)}, "mean must be finite"),
        ({"mean": (0.5,), "std": (float("inf"),)}, "std must be finite"),
        ({"mean": ("a",), "std": (0.5,)}, "mean must be a sequence of numbers"),
        ({"mean": 0.5, "std": 0.5}, "mean must be a sequence of numbers"),
    ],
)
def test_what_cannot_be_a_network_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        Architecture(**(GOOD | change))


def test_json_with_other_keys_is_refused():
    with pytest.raises(InputError, match="no key 'depth'"):
        Architecture.from_json(GOOD | {"depth": 3})
    with pytest.raises(InputError, match="needs the key 'input_shape'"):
        Architecture.from_json({"name": "lenet", "num_classes": 10})
    with pytest.raises(InputError, match="must be a JSON object, got list"):
        Architecture.from_json([1])
