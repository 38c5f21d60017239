import os
import pickle
import tracemalloc

import numpy as np
import pytest

from smoothcert.datasets import inert_pickle
from smoothcert.datasets.inert_pickle import as_array, load_plain


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
        np.array([1, -2, 2**40]),
        np.array([1, 300], dtype=">i2"),
    ],
    ids=["C", "Fortran", "int64", "big-endian"],
)
def test_integer_arrays_come_back(protocol, array):
    back = as_array(load_plain(pickle.dumps(array, protocol=protocol)))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_plain_values_come_back():
    value = {"a": [1, 2.5, None, True, "text"], "b": (b"bytes", {"c": -(2**70)})}
    assert load_plain(pickle.dumps(value)) == value
    assert as_array([3, 1, 2]).tolist() == [3, 1, 2]


class Calls:
    """A pickle that calls a function with arguments when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "wrap", [lambda call: call, lambda call: {b"data": call, b"labels": [0]}], ids=["bare", "field"]
)
def test_a_pickle_that_calls_a_program_does_not_run(tmp_path, protocol, wrap):
    marker = tmp_path / "ran"
    raw = pickle.dumps(wrap(Calls(os.system, f"touch {marker}")), protocol=protocol)
    with pytest.raises(pickle.UnpicklingError, match="system, and only arrays and plain values are admitted"):
        load_plain(raw)
    assert not marker.exists()
    pickle.loads(raw)
    assert marker.exists(), "the pickle is harmless, so the test shows nothing"


@pytest.mark.parametrize("call", [Calls(eval, "1"), Calls(getattr, [], "append"), Calls(np.fromfile, "x"), np.int64(3)])
def test_other_names_are_refused(call):
    with pytest.raises(pickle.UnpicklingError, match="only arrays and plain values are admitted"):
        load_plain(pickle.dumps(call))


def test_a_name_inside_an_admitted_one_is_refused():
    raw = b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93."  # STACK_GLOBAL "numpy" "ndarray.__init__"
    with pytest.raises(pickle.UnpicklingError, match=r"ndarray\.__init__"):
        load_plain(raw)


@pytest.mark.parametrize(
    "name", ["numpy\nndarray", "numpy\ndtype", "_codecs\nencode", "numpy.core.numeric\n_frombuffer"]
)
def test_the_recorders_themselves_cannot_be_changed(name):
    before = {kind: dict(vars(kind)) for kind in inert_pickle._InertUnpickler.admitted.values()}
    slots = b"N}X\x05\x00\x00\x00planted"[:-2] + b"K\x01s\x86b."  # BUILD with slot state {"plant": 1}
    with pytest.raises(TypeError):
        load_plain(b"\x80\x02c" + name.encode() + b"\n" + slots)
    assert {kind: dict(vars(kind)) for kind in before} == before


@pytest.mark.parametrize("array", [np.array([1, None]), np.array([0.5]), np.zeros(2, dtype="u1,O"), np.array(["a"])])
def test_only_integer_arrays_are_made(array):
    with pytest.raises((ValueError, pickle.UnpicklingError)):
        as_array(load_plain(pickle.dumps(array, protocol=2)))


@pytest.mark.parametrize("value", [None, "text", [1, "2"], [True], {}, (1, 2)])
def test_other_values_are_not_arrays(value):
    with pytest.raises(ValueError, match="stands where an array"):
        as_array(value)


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x3f", b"p1000000000\n"], ids=["LONG_BINPUT", "PUT"])
def test_a_huge_memo_index_takes_no_memory(put):
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError, match="more values than it has bytes"):
            load_plain(b"\x80\x02N" + put + b".")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
