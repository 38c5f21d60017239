import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.analysis import Results
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.present import radius_accuracy
from smoothcert.present.figures.curves import steps
from smoothcert.runs import Record

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def of_radii(*radii: float, name: str = "a", norm: str | None = None) -> Results:
    records = tuple(Record(i, 1, 1, r) for i, r in enumerate(radii))
    return Results(name, records, settings=Settings(norm=norm))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_suffix_says_the_format_and_the_file_is_reproducible(tmp_path: Path, suffix: str) -> None:
    files = [radius_accuracy([of_radii(0.1, 0.5, 0.5)], tmp_path / f"{i}{suffix}").read_bytes() for i in range(2)]
    assert files[0] == files[1]
    assert files[0].startswith(MAGIC[suffix.lower()])


def test_the_curve_is_the_certified_accuracy() -> None:
    records = [Record(0, 1, 1, 0.5), Record(1, 1, 1, 0.5), Record(2, 1, 1, 1.0), Record(3, 1, 2, 7.0)]
    radii, (value, low, high) = steps(Results("a", tuple(records)))
    assert radii.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert value.tolist() == [75.0, 75.0, 25.0, 0.0]
    assert (low <= value).all()
    assert (value <= high).all()
    assert high[0] == pytest.approx(99.369, abs=1e-3)  # Clopper-Pearson, 3 of 4
    assert (np.diff(value) <= 0).all()


def test_norm_and_acr_are_on_the_figure(tmp_path: Path) -> None:
    path = radius_accuracy([of_radii(0.42899, name="mine", norm="l2")], tmp_path / "a.svg")
    comments = re.findall(r"<!-- (.*?) -->", path.read_text())  # matplotlib writes each text beside its glyphs
    assert "ACR 0.4289   mine" in comments
    assert r"Certified $\ell_2$ radius" in comments
    assert "Certified accuracy (%)" in comments


@pytest.mark.parametrize("name", ["$x", "$\\frac{$", "_hidden", "<&>", "ü [b]", "{}%s"])
def test_any_name_can_stand_in_the_legend(tmp_path: Path, name: str) -> None:
    path = radius_accuracy([of_radii(0.5, name=name)], tmp_path / "a.svg")
    assert "ACR 0.5000" in path.read_text()


def test_many_curves_and_nothing_certified(tmp_path: Path) -> None:
    nothing = Results("nothing", (Record(0, 1, -1, 0.0),))
    many = [of_radii(0.1 * i, name=f"run {i}") for i in range(30)]
    assert radius_accuracy([nothing, *many], tmp_path / "many.png").stat().st_size > 0
    assert radius_accuracy([nothing], tmp_path / "nothing.png").stat().st_size > 0


def test_a_long_name_does_not_squeeze_the_curves(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = radius_accuracy([of_radii(0.5, name="W" * 300 + " end")], tmp_path / "long.svg")
    assert not recwarn.list
    (label,) = re.findall(r"<!-- (ACR .*?) -->", path.read_text())
    assert len(label) == len("ACR 0.5000   ") + 52
    assert label.endswith("W end")


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.png, \.svg, \.pdf, got 'a\.jpg'"):
        radius_accuracy([of_radii(0.5)], tmp_path / "a.jpg")
    with pytest.raises(InputError, match="at least one run"):
        radius_accuracy([], tmp_path / "a.png")
    with pytest.raises(InputError, match="cannot be written"):
        radius_accuracy([of_radii(0.5)], tmp_path / "no" / "a.png")


def test_importing_and_drawing_need_neither_torch_nor_pyplot(tmp_path: Path) -> None:
    code = f"""
import sys
from smoothcert import analysis, present
assert "torch" not in sys.modules, "torch"
assert "matplotlib" not in sys.modules, "matplotlib before a figure is drawn"
from smoothcert.runs import Record
present.radius_accuracy([analysis.Results("a", (Record(0, 1, 1, 0.5),))], {str(tmp_path / "a.png")!r})
assert "matplotlib.pyplot" not in sys.modules, "pyplot"
assert "torch" not in sys.modules, "torch"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
