"""Certificates as people see them."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smoothcert.procedures import Certificate, Certificates
from smoothcert.runs import Run


@pytest.fixture
def plain(make_run: Callable[..., Path]) -> list[Certificate]:
    """Of 99, 50 and 80 of 100 votes."""
    return list(Run.open(make_run("run", range(3), (99, 50, 80))).certificates())


@pytest.fixture
def some(plain: list[Certificate]) -> Certificates:
    pictures = np.linspace(0, 1, 3 * 16, dtype=np.float32).reshape(3, 1, 4, 4)
    names = ["a.png", "b\x1b.png", "<i>.png"]
    return Certificates(plain, class_names=["cat", "dog"], input_names=names, images=pictures)


def test_one_certificate_is_one_line(some: Certificates) -> None:
    assert "\n" not in str(some[0])
    assert str(some[0]).startswith("class 1 below l2 radius ")


def test_several_are_a_table(some: Certificates) -> None:
    head, first, second, third, claim = str(some).splitlines()
    assert head.split("  ")[0] == "input"
    assert first.split()[:2] == ["a.png", "dog"]
    assert float(first.split()[2]) <= some[0].radius < float(first.split()[2]) + 1e-4
    assert second.split()[:2] == ["b\\x1b.png", "abstains"]
    assert third.split()[1] == "dog"
    assert claim.startswith(
        "No perturbation below the radius changes the answer (fixed classifier); each is wrong with"
    )
    assert max(map(len, (head, first, second, third))) <= 80


def test_it_is_a_list_in_everything(some: Certificates) -> None:
    assert isinstance(some, list)
    assert some == list(some)
    assert [c.label for c in some] == [1, -1, 1]
    assert isinstance(some[1:], Certificates)
    assert some[1:].input_names == ("b\x1b.png", "<i>.png")
    assert some[::2][1] is some[2]
    assert pickle.loads(pickle.dumps(some)) == some
    assert str(Certificates()) == "no certificates"
    assert sorted(some, key=lambda c: c.radius)[0] is some[1]


def test_a_notebook_shows_pictures_and_obeys_no_name(some: Certificates) -> None:
    shown = some._repr_html_()
    assert shown.count("data:image/png;base64,") == 3
    assert "&lt;i&gt;.png" in shown
    assert "<i>" not in shown
    assert "<img" not in Certificates(some, images=np.zeros((3, 7)))._repr_html_()
    assert some[0]._repr_html_().startswith("<p>class 1 below")


def test_a_long_table_shows_its_ends(plain: list[Certificate]) -> None:
    lines = str(Certificates(plain[:1] * 1000)).splitlines()
    assert len(lines) == 63
    assert "... 940 more ..." in lines
    assert lines[-2].split()[0] == "999"
