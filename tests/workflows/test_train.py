"""Training into a folder by several processes."""

from pathlib import Path

import pytest

from smoothcert import datasets
from smoothcert.core.errors import InputError
from smoothcert.workflows import train as training
from smoothcert.workflows.recipes import adapted


@pytest.mark.parametrize("rank", [0, 1])
def test_what_the_first_process_is_refused_all_say(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of something else, which only the first process looks into."""
    told: list[object] = []

    class Pair:
        rank = -1

        @classmethod
        def current(cls) -> type["Pair"]:
            return cls

        @staticmethod
        def gather(value: object) -> list[object]:
            told.append(value)
            return [value, None] if rank == 0 else ["this is not ours", value]

    Pair.rank = rank
    (tmp_path / "letter.txt").write_text("dear")
    monkeypatch.setattr(training, "Group", Pair)
    recipe = adapted("mnist-lenet-gaussian-0.50-fast", ["architecture=lenet"])
    data = datasets.load("digits", "train")
    with pytest.raises(InputError, match="exists and is not a training" if rank == 0 else "this is not ours"):
        training.train_recipe(recipe, data, seed=0, out=tmp_path)
    assert len(told) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
