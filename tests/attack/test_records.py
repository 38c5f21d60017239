import json
from pathlib import Path

import pytest

from smoothcert.attack.records import Attacked, AttackRun
from smoothcert.core.errors import InputError


def attack_run(path: Path, *indices: int) -> AttackRun:
    """A run that planned inputs 0 and 1 and has a line for each index; line k answers k."""
    run = AttackRun.start(path, {"indices": [0, 1]})
    lines = [json.dumps(Attacked(i, 1, k, 1, 0.5, {"pgd": None}).to_json()) for k, i in enumerate(indices)]
    (path / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert isinstance(run, AttackRun)
    return run


def test_lines_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    assert [(one.index, one.answer) for one in attack_run(tmp_path / "run", 1, 0).attacked()] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("indices", "words"),
    [((0, 1, 0), "line 3 repeats input 0"), ((0, 7), "line 2 is not planned: input 7")],
)
def test_repeated_and_unplanned_lines_are_refused(tmp_path: Path, indices: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=rf"records.jsonl, {words}; delete that line and resume"):
        attack_run(tmp_path / "run", *indices).attacked()
