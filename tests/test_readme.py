"""The README: short, its code runs as it stands, and its figures are those of the pages that they are taken from."""

import math
import re
from pathlib import Path

import pytest
from documents import RUN, blocks_of, follow

import smoothcert as sc

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS, PERFORMANCE = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("results", "performance")
)


def test_it_is_read_in_three_minutes() -> None:
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.S | re.M)
    assert len(prose.split()) < 650, "some 200 words a minute"
    assert prose.count("![") == 1, "one picture"
    assert all(block.kind in RUN for block in blocks_of(README))
    ten = next(block for block in blocks_of(README) if block.kind == "python")
    assert len([line for line in ten.code.splitlines() if line and not line.startswith(("import", "from"))]) <= 10


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten")
def test_its_code_makes_a_run_a_table_a_page_and_an_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    follow(blocks_of(README), tmp_path)
    said = capsys.readouterr().out
    assert "ACR" in said
    assert "297 of 297 records hold: level 1" in said
    assert "level 2 (326700 draws of 297 inputs made again)" in said
    right = [record for record in sc.Run.open("runs/mine").records() if record.correct and record.radius > 0]
    assert len(right) > 150, "it learnt to read digits"
    for page in ("mine.html", "first.html"):
        assert "data:image/png" in (tmp_path / page).read_text(encoding="utf-8")


def row_of(start: str) -> tuple[list[float], str]:
    """The figures of a row of the README's table, and its command."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    *_, figures, command, _ = row.split("|")
    return [float(number) for number in re.findall(r"(?<![\w-])\d+(?:\.\d+)?", figures.replace("int8", ""))], command


def down(value: float, digits: int) -> float:
    return math.floor(value * 10**digits) / 10**digits


def ratios(page: str, pattern: str) -> list[float]:
    """The numbers that a pattern finds on a page."""
    found = [float(number) for number in re.findall(pattern, page, re.M)]
    assert found, pattern
    return found


def test_its_figures_are_those_of_the_pages_and_their_commands_are_there() -> None:
    mean = r"(\d+) / \d+ \| "
    (draws,) = re.findall(rf"^\| built-in family \| 1 \| {mean}{mean}{mean}{mean}", RESULTS, re.M)
    staged, betting, _, ours = map(int, draws)
    figures, command = row_of("noisy copies needed")
    assert figures == [down(100_100 / ours, 0), down(staged / ours, 1), down(betting / ours, 1)]
    commands = [command]

    figures, command = row_of("time to decide it")
    found = ratios(PERFORMANCE, r"^\| Sequential, backend auto .*\| (\d+) \(\d+-\d+ in 3 rounds\)")
    assert figures == [min(found), max(found)]
    commands.append(command)

    speeds = PERFORMANCE[: PERFORMANCE.index("## How cost grows")]
    figures, command = row_of("noisy copies per second")
    cells = r" \| [\d.]+ \| \d+-\d+ \| ([\d.]+) "
    eager, int8 = (ratios(speeds, rf"^\| {name}{cells}") for name in ("eager", "openvino-int8"))
    assert figures == [down(number, 1) for one in (eager, int8) for number in (min(one), max(one))]
    commands.append(command)

    figures, command = row_of("images per second in training")
    training = PERFORMANCE[PERFORMANCE.index("\n## Training") :]
    found = ratios(training[: training.index("Memory of")], r"^\| (?:LeNet|ResNet)[^|]*(?:\|[^|]*){4}\| ([\d.]+) \|$")
    assert figures == [min(found), max(found)]
    commands.append(command)

    for command in commands:
        (script,) = re.findall(r"`python (\S+\.py)", command)
        assert (ROOT / script).exists()
        assert script in RESULTS + PERFORMANCE
