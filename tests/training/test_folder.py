import errno
import fcntl
import json
from pathlib import Path

import pytest

from smoothcert.core.errors import InputError
from smoothcert.core.files import DRAFT
from smoothcert.training import Epoch, Folder
from smoothcert.training import folder as module
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


def test_of_two_that_make_a_folder_at_once_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes between the look into the folder and the first file there."""
    write, later = module.write_whole, {"seed": 1}

    def meanwhile(path: Path, content: bytes) -> None:
        monkeypatch.setattr(module, "write_whole", write)
        with pytest.raises(InputError, match="is being trained by another process"), Folder.start(tmp_path, later):
            pass
        write(path, content)

    monkeypatch.setattr(module, "write_whole", meanwhile)
    with Folder.start(tmp_path, CONFIG):
        assert json.loads((tmp_path / "train.json").read_text()) == CONFIG
    with pytest.raises(InputError, match="another configuration"), Folder.start(tmp_path, later):
        pass


def test_drafts_of_a_killed_process_are_cleared_away(tmp_path: Path) -> None:
    with Folder.start(tmp_path, CONFIG):
        pass
    for name in (f"{DRAFT}0123456789abcdef", f"{DRAFT}89", ".mine"):
        (tmp_path / name).touch()
    with Folder.start(tmp_path, CONFIG):
        assert {path.name for path in tmp_path.iterdir()} == {".lock", ".mine", "train.json"}


def test_without_locks_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InputError, match=r"cannot lock files.*choose a folder on a local disk"):
        Folder.start(tmp_path, CONFIG).__enter__()


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
