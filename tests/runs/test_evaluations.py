from pathlib import Path

import pytest

from smoothcert.core.errors import InputError
from smoothcert.runs.evaluations import add_evaluations, evaluations


def test_attempts_add_up(tmp_path: Path) -> None:
    assert evaluations(tmp_path) == ((), "")
    assert add_evaluations(tmp_path, (10, 4), lambda asked: f"{sum(asked)} asked") == "14 asked"
    assert add_evaluations(tmp_path, (5, 1), lambda asked: f"{sum(asked)} asked") == "20 asked"
    assert evaluations(tmp_path) == ((15, 5), "20 asked")
    assert [file.name for file in tmp_path.iterdir()] == ["asked.json"]


def test_another_number_of_members_is_damage(tmp_path: Path) -> None:
    (tmp_path / "asked.json").write_text('{"asked": [1, 2, 3], "cost": ""}')
    with pytest.raises(InputError, match=r"asked.json was damaged; delete it"):
        add_evaluations(tmp_path, (1, 2), lambda _: "")
    assert evaluations(tmp_path) == ((1, 2, 3), ""), "nothing is written"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"asked": 3, "cost": ""}', '{"asked": ["x"], "cost": ""}'])
def test_damage_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "asked.json").write_text(content)
    with pytest.raises(InputError, match=r"asked.json was damaged; delete it"):
        evaluations(tmp_path)
