import json
from pathlib import Path

import pytest

from smoothcert.errors import InputError
from smoothcert.training import Epoch, Folder
from smoothcert.training.folder import difference

CONFIG = {"seed": 0, "recipe": {"lr": 0.1, "milestones": [1, 2]}}


def test_the_same_configuration_goes_on_and_another_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    with Folder.start(out, CONFIG) as folder:
        assert json.loads((out / "train.json").read_text()) == CONFIG
        with pytest.raises(InputError, match="is being trained by another process"), Folder.start(out, CONFIG):
            pass
    with Folder.start(out, CONFIG) as again:
        assert again == folder
    with pytest.raises(InputError, match=r"another configuration \(recipe.lr is 0.1, now 0.2\)"):
        Folder.check(out, {"seed": 0, "recipe": {"lr": 0.2, "milestones": [1, 2]}})
    assert difference(CONFIG, {**CONFIG, "extra": 1}) == "extra is None, now 1"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is not a training"):
        Folder.check(tmp_path, CONFIG)
    with pytest.raises(InputError, match="is not a training"):
        Folder.check(tmp_path / "letter.txt", CONFIG)
    (tmp_path / "train.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        Folder.check(tmp_path, CONFIG)


def test_the_log_has_a_line_per_epoch(tmp_path: Path) -> None:
    Folder(tmp_path).log([Epoch(1, 2, 0.5, {"a": 0.5}, 0.9, 0.1, 3.0), Epoch(2, 2, 0.25)])
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [0.5, 0.25]
    assert lines[0]["terms"] == {"a": 0.5}
    assert lines[1]["accuracy"] is None
