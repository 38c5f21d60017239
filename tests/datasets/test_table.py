import sys

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import ReadOptions, load


@pytest.fixture
def table(tmp_path):
    def write(text: str):
        (tmp_path / "flowers.csv").write_text(text)
        return tmp_path / "flowers.csv"

    return write


FLOWERS = "width,height,species\n1.5,2,rose\n0.1,3,tulip\n-4e-3,0,rose\n"


def test_rows_are_inputs_and_a_column_is_the_label(table):
    data = load(table(FLOWERS), options=ReadOptions(label_column="species"))
    assert np.array_equal(data.inputs, np.array([[1.5, 2], [0.1, 3], [-4e-3, 0]], np.float32))
    assert (data.labels.tolist(), data.class_names) == ([0, 1, 0], ("rose", "tulip"))
    assert (data.name, data.input_range, data.num_classes) == ("flowers", None, 2)


def test_whole_numbers_are_class_numbers_and_the_usual_names_are_found(table):
    data = load(table("a,Label,b\n1,2,3\n4,0,6\n"))
    assert (data.labels.tolist(), data.class_names) == ([2, 0], ("0", "1", "2"))
    assert np.array_equal(data.inputs, np.array([[1, 3], [4, 6]], np.float32))


def test_a_table_without_labels(table):
    data = load(table("a,b\n1,2\n3,4\n"), options=ReadOptions(label_column="none"))
    assert data.unlabelled
    assert data.shape == (2,)


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        (
            FLOWERS,
            None,
            "does not say which column holds the labels; give --label-column with one of 'width', 'height'",
        ),
        (FLOWERS, "kind", "has no column 'kind'; --label-column must be one of 'width', 'height', 'species'"),
        (FLOWERS, "width", "column 'species' of .* holds .*, not numbers; encode it as numbers, or leave it out"),
        ("a,b,y\n1,,0\n2,3,1\n", None, "column 'b' of .* has no finite number in row 0; fill it, or leave the row out"),
        ("a,b,y\n1,1e99,0\n2,3,1\n", None, "column 'b' of .* has no finite number in row 0"),
        ("a,y\n1,x\n2,\n", None, "column 'y' of .* has no label in row 1; fill it, or leave the row out"),
        ("a,y\n1,5\n2,5\n", None, "column 'y' of .* has one class only, 5; give rows of at least two"),
        ("a,y\n1,0.5\n2,0.7\n", None, "column 'y' of .* holds float64, not classes"),
        ("a,label,y\n1,0,1\n2,1,0\n", None, "does not say which column holds the labels"),
        ("y\n1\n0\n", None, "has 2 rows and 0 columns of features"),
        ("a,y\n", None, "has 0 rows and 1 columns of features"),
        ("", None, "cannot be read as a CSV table .*: write it with a header and commas"),
    ],
)
def test_what_is_wrong_is_named(table, text, column, says):
    with pytest.raises(InputError, match=f"flowers.csv.*{says}|{says}"):
        load(table(text), options=ReadOptions(label_column=column))


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "y": [1, 0]})
    if pytest.importorskip("importlib").util.find_spec("pyarrow") is None:
        (tmp_path / "x.parquet").write_bytes(b"PAR1")
        with pytest.raises(InputError, match="needs the packages pandas and pyarrow: install them with pip"):
            load(tmp_path / "x.parquet")
        return
    frame.to_parquet(tmp_path / "x.parquet")
    data = load(tmp_path / "x.parquet")
    assert (data.inputs.tolist(), data.labels.tolist()) == ([[1.0], [2.0]], [1, 0])


def test_pandas_is_asked_for_by_name(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        InputError, match=r"tables need the package pandas: install them with pip install 'smoothcert\[t"
    ):
        load(table(FLOWERS))
