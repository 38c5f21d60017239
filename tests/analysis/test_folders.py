from pathlib import Path

import pytest

from smoothcert.analysis import leaderboard
from smoothcert.core.errors import InputError

HEADER = "idx\tlabel\tpredict\tradius\n"


def log(path: Path, radius: float, label: int = 1, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{i}\t{label}\t{label}\t{radius:.4f}\n" for i in range(start, start + 100)]
    path.write_text(HEADER + "".join(rows))
    return path


def test_a_folder_is_read_to_the_bottom_and_ordered_by_acr(make_run, tmp_path: Path) -> None:
    make_run("deep/down/run", range(3), [100, 100, 100])  # ACR 0.375
    log(tmp_path / "low.tsv", 0.1234)
    log(tmp_path / "deep" / "high.tsv", 0.7891)
    (tmp_path / "deep" / "notes.txt").write_text("no log")
    board = leaderboard([tmp_path])
    assert [result.name for result in board.results] == ["high", "run", "low"]
    assert board.skipped == ()


def test_what_lies_inside_a_run_belongs_to_it(make_run, tmp_path: Path) -> None:
    path = make_run("runs/a", range(3), [100, 100, 100])
    log(path / "export.tsv", 0.5)
    assert [result.name for result in leaderboard([tmp_path / "runs"]).results] == ["a"]


def test_what_cannot_be_read_in_a_folder_is_skipped_with_its_reason(make_run, tmp_path: Path) -> None:
    log(tmp_path / "good.tsv", 0.5)
    (tmp_path / "table.tsv").write_text("a\tb\n1\t2\n")
    make_run("empty", range(3), [])
    board = leaderboard([tmp_path])
    assert [result.name for result in board.results] == ["good"]
    assert len(board.skipped) == 2
    assert "no recorded input yet" in board.skipped[0]
    assert "table.tsv, line 1 must name the columns" in board.skipped[1]


def test_what_is_named_keeps_its_order_and_is_refused_if_it_cannot_be_read(tmp_path: Path) -> None:
    low, high = log(tmp_path / "low.tsv", 0.1234), log(tmp_path / "high.tsv", 0.7891)
    assert [result.name for result in leaderboard([low, high]).results] == ["low", "high"]
    (tmp_path / "bad.tsv").write_text("what is this")
    with pytest.raises(InputError, match=r"bad\.tsv, line 1"):
        leaderboard([tmp_path / "bad.tsv"])


def test_a_file_named_beside_its_folder_counts_once(tmp_path: Path) -> None:
    low = log(tmp_path / "low.tsv", 0.1234)
    log(tmp_path / "high.tsv", 0.7891)
    assert [result.name for result in leaderboard([low, tmp_path]).results] == ["high", "low"]


def test_other_data_stand_below_and_not_between(tmp_path: Path) -> None:
    for name, radius, label in [("a1", 0.9, 1), ("b1", 0.8, 2), ("a2", 0.7, 1), ("b2", 0.6, 2)]:
        log(tmp_path / f"{name}.tsv", radius + 0.0001, label)
    log(tmp_path / "c.tsv", 0.8501, 1, start=500)  # no input in common: nobody knows
    assert [result.name for result in leaderboard([tmp_path]).results] == ["a1", "a2", "c", "b1", "b2"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run, and no run or log below it can be read; give"):
        leaderboard([tmp_path])
    (tmp_path / "bad.tsv").write_text("what is this")
    with pytest.raises(InputError, match=r"can be read \(.*bad\.tsv.*\); give"):
        leaderboard([tmp_path])


def test_a_link_that_leads_back_is_not_followed(tmp_path: Path) -> None:
    log(tmp_path / "in" / "a.tsv", 0.5)
    (tmp_path / "in" / "loop").symlink_to(tmp_path)
    assert [result.name for result in leaderboard([tmp_path]).results] == ["a"]
