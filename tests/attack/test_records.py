import dataclasses
from pathlib import Path
from typing import Any

import pytest

from smoothcert.attack.records import AttackConfig, Attacked, AttackRun
from smoothcert.core.errors import InputError

CONFIG = AttackConfig(
    attacks=("pgd",), autoattack=(), radii=(0.5,), steps=1, draws=4, votes=100, run="0" * 32, indices=(0, 1)
)


def attack_run(path: Path, *indices: int) -> AttackRun:
    """A run that planned inputs 0 and 1 and has a line for each index; line k answers k."""
    run = AttackRun.start(path, CONFIG)
    with run.writing() as writer:
        for k, i in enumerate(indices):
            writer.append(Attacked(i, 1, k, 1, 0.5, {"pgd": None}))
    return AttackRun.open(path)


def test_lines_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    assert [(one.index, one.answer) for one in attack_run(tmp_path / "run", 1, 0).attacked()] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("indices", "words"),
    [((0, 1, 0), "line 3 repeats input 0"), ((0, 7), "line 2 is not planned: input 7")],
)
def test_repeated_and_unplanned_lines_are_refused(tmp_path: Path, indices: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=rf"records.jsonl, {words}; delete that line and all below it, and run"):
        attack_run(tmp_path / "run", *indices).attacked()


def test_a_line_changed_by_hand_is_refused(tmp_path: Path) -> None:
    run = attack_run(tmp_path, 0, 1)
    file = tmp_path / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"radius":0.5', b'"radius":0.75', 1))
    with pytest.raises(InputError, match="line 1 was changed after it was written; delete that line"):
        run.attacked()


def test_another_attack_is_refused_in_the_users_words(tmp_path: Path) -> None:
    attack_run(tmp_path, 0)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"steps": 9}, "was started with 1 steps; this command asks for 9. .* the old --steps"),
        ({"attacks": ("ddn",)}, "with other attacks. .* the old --attack"),
        ({"run": "1" * 32}, "with another run. .* the old --run"),
    ]
    for change, words in changes:
        with pytest.raises(InputError, match=words):
            AttackRun.start(tmp_path, dataclasses.replace(CONFIG, **change))
