"""Rows of a table as inputs: CSV and Parquet files, read by pandas where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.core.text import visible
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.files import reading

SUFFIXES = (".csv", ".parquet")
USUAL = ("label", "class", "target", "y")
INSTALL = "install them with pip install 'smoothcert[tables]'"


def read_table(path: Path, split: str, label_column: str | None = None) -> Dataset:
    """The columns of numbers as inputs, float32 (N, d), and one column as labels.

    Which one that is says `label_column`; by default it is called label, class, target or y, and the word `none` says
    that there is none. Labels are class numbers 0, 1, ..., or anything else, and then classes are numbered in the order
    of their sorted names. A column that holds no numbers, and a row with an empty cell, are refused by name.
    """
    frame = _read(path)
    columns = [str(name) for name in frame.columns]
    frame.columns = columns
    if len(set(columns)) < len(columns):
        raise InputError(f"{path} has two columns of one name; rename one of them")
    chosen = _label_column(path, columns, label_column)
    features = frame.drop(columns=[chosen] if chosen is not None else [])
    if not len(frame) or not len(features.columns):
        raise InputError(f"{path} has {len(frame)} rows and {len(features.columns)} columns of features; give some")
    x = _features(path, features)
    name = visible(path.stem)
    if chosen is None:
        return Dataset(name, split, x, np.full(len(x), UNKNOWN, dtype=np.int64), 0, None, ())
    labels, names = _labels(path, chosen, frame[chosen])
    return Dataset(name, split, x, labels, len(names), None, names, chosen)


def _read(path: Path) -> Any:
    try:
        import pandas  # noqa: PLC0415  (optional, and it takes a second)
    except ImportError:
        raise InputError(f"{path} is a table, and tables need the package pandas: {INSTALL}") from None
    if path.suffix == ".csv":
        with reading(path, kind="a CSV table", remedy="write it with a header and commas between cells"):
            return pandas.read_csv(path)
    try:
        with reading(path, kind="a Parquet table", remedy="write it with pandas or pyarrow"):
            return pandas.read_parquet(path)
    except InputError as error:
        if isinstance(error.__cause__, ImportError):
            raise InputError(f"{path} is a Parquet table, which needs the packages pandas and pyarrow: {INSTALL}; or "
                             "convert it to CSV") from None  # fmt: skip
        raise


def _label_column(path: Path, columns: list[str], wanted: str | None) -> str | None:
    if wanted == "none" and wanted not in columns:
        return None
    if wanted is not None and wanted not in columns:
        raise InputError(f"{path} has no column {wanted!r}; --label-column must be one of {_listed(columns)}")
    found = [wanted] if wanted is not None else [name for name in columns if name.lower() in USUAL]
    if len(found) != 1:
        raise InputError(
            f"{path} does not say which column holds the labels; give --label-column with one of {_listed(columns)}, "
            "or none"
        )
    return found[0]


def _features(path: Path, frame: Any) -> Any:
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind not in "fiub":
            raise InputError(
                f"column {name!r} of {path} holds {column.dtype}, not numbers; encode it as numbers, or leave it out"
            )
    with np.errstate(over="ignore"):
        x = frame.to_numpy(dtype=np.float32, na_value=np.nan)
    if not np.isfinite(x).all():
        row, place = (int(found[0]) for found in np.nonzero(~np.isfinite(x)))
        raise InputError(
            f"column {frame.columns[place]!r} of {path} has no finite number in row {row}; fill it, or leave the "
            "row out"
        )
    return np.ascontiguousarray(x)


def _labels(path: Path, name: str, column: Any) -> tuple[Any, tuple[str, ...]]:
    if column.isna().any():
        row = int(np.flatnonzero(column.isna().to_numpy())[0])
        raise InputError(f"column {name!r} of {path} has no label in row {row}; fill it, or leave the row out")
    values = column.tolist()
    kinds = sorted(set(values), key=lambda value: (str(type(value)), value))
    if len(kinds) < 2:
        raise InputError(f"column {name!r} of {path} has one class only, {kinds[0]!r}; give rows of at least two")
    whole = all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10 * len(values) for value in kinds
    )
    if whole and max(kinds) < max(2 * len(kinds), 100):
        return np.array(values, dtype=np.int64), tuple(str(label) for label in range(max(kinds) + 1))
    if column.dtype.kind == "f":
        raise InputError(
            f"column {name!r} of {path} holds {column.dtype}, not classes; give the column of the labels as "
            "--label-column"
        )
    number = {value: label for label, value in enumerate(kinds)}
    return np.array([number[value] for value in values], dtype=np.int64), tuple(visible(str(value)) for value in kinds)


def _listed(columns: list[str], most: int = 8) -> str:
    return ", ".join(map(repr, columns[:most])) + (", ..." if len(columns) > most else "")
