import json
from pathlib import Path

import pytest

from smoothcert.core.errors import InputError
from smoothcert.present.figures import training_curves, training_curves_figure

LOG = [{"number": n, "loss": 1 / n, "accuracy": 1 - 1 / (n + 1)} for n in (1, 2, 3)]


def test_loss_and_accuracy_of_every_epoch_are_drawn() -> None:
    loss, accuracy = training_curves_figure({"a": LOG, "b": [{**e, "accuracy": None} for e in LOG]}).axes
    assert [line.get_label() for line in loss.lines] == ["a", "b"]
    assert loss.lines[0].get_xydata().tolist() == [[n, 1 / n] for n in (1, 2, 3)]  # type: ignore[union-attr]
    assert len(accuracy.lines) == 1, "a training without validation has no accuracy"
    assert accuracy.lines[0].get_ydata() == pytest.approx([50, 100 * 2 / 3, 75])


def test_files(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in LOG))
    pictures = [training_curves([tmp_path / "log.jsonl"], tmp_path / f"{k}.png").read_bytes() for k in range(2)]
    assert pictures[0] == pictures[1]
    with pytest.raises(InputError, match="must end in"):
        training_curves([tmp_path / "log.jsonl"], tmp_path / "x.gif")
    for wrong in ("", "{", "[]\n", '{"number": 1}\n'):
        (tmp_path / "bad.jsonl").write_text(wrong)
        with pytest.raises(InputError, match="is not the log of a training"):
            training_curves([tmp_path / "bad.jsonl"], tmp_path / "x.png")
    with pytest.raises(InputError, match="at least one run or log"):
        training_curves([], tmp_path / "x.png")
