"""What is heard of a task: plain lines come at a calm pace, with the time that is left."""

from pathlib import Path

import pytest

from smoothcert.workflows.observer import LogFile, Observer, Observers, PlainLines, task


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_come_at_once_then_at_growing_intervals_up_to_a_minute_and_at_the_end() -> None:
    said: list[tuple[float, str]] = []
    clock = Clock()
    with task(PlainLines(lambda line: said.append((clock.now, line)), clock=clock), "certify", total=1000) as under_way:
        assert said == [(0, "certify: started")]
        for done in range(400):
            clock.now += 1
            under_way.reach(done)
    assert [when for when, _ in said] == [0, 2, 6, 14, 30, 62, 122, 182, 242, 302, 362, 400]


def test_a_line_has_share_note_and_times() -> None:
    said: list[str] = []
    clock = Clock()
    with task(PlainLines(said.append, clock=clock), "certify", total=200) as under_way:
        for done in range(0, 200, 2):
            clock.now += 1
            under_way.reach(done, note=f"{done // 20} certified")
    assert said[-3:] == [
        "certify: 29%, 2 certified, 0:00:30 gone, about 0:01:13 left",
        "certify: 61%, 6 certified, 0:01:02 gone, about 0:00:40 left",
        "certify: done in 0:01:40, 9 certified",
    ]
    assert max(map(len, said)) <= 80


def test_the_time_left_counts_from_where_it_went_on() -> None:
    """A training that resumes at 900 of 1000 steps did not make these in no time."""
    said: list[str] = []
    clock = Clock()
    with task(PlainLines(said.append, clock=clock), "seed 0") as under_way:
        under_way.reach(0, note="epoch 9/10")  # what was done before is told first, without a total
        under_way.reach(900, 1000)
        clock.now += 60
        under_way.reach(910, 1000)
    assert said[1] == "seed 0: 91%, epoch 9/10, 0:01:00 gone, about 0:09:00 left"


def test_of_the_first_steps_nothing_follows() -> None:
    """Workers that start take seconds: 4 s for one step of 100 000 are no promise of days."""
    said: list[str] = []
    clock = Clock()
    with task(PlainLines(said.append, clock=clock), "draw", total=100_000) as under_way:
        under_way.reach(0)
        clock.now = 4.0
        under_way.reach(1)
        clock.now = 14.0
        under_way.reach(50_000)
    assert said[1:3] == ["draw: 0%, 0:00:04 gone", "draw: 50%, 0:00:14 gone, about 0:00:14 left"]


def test_a_task_that_fails_does_not_finish() -> None:
    said: list[str] = []
    with pytest.raises(KeyError), task(PlainLines(said.append), "draw", total=3):
        raise KeyError
    assert said == ["draw: started"]


def test_a_log_says_at_once_that_it_goes_and_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "progress.log"
    for done in (0, 5):
        with task(Observers(Observer(), LogFile(path)), "certify", total=10, done=done, note="so so") as under_way:
            under_way.advance()
    lines = [line.split(" ", 2)[2] for line in path.read_text().splitlines()]
    assert lines == [
        "certify: started",
        "certify: done in 0:00:00, so so",
        "certify: started at 50%",
        "certify: done in 0:00:00, so so",
    ]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with task(LogFile(tmp_path / "gone" / "progress.log"), "certify", total=1) as under_way:
        under_way.advance()
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_heard_even_if_nobody_listens() -> None:
    with pytest.warns(UserWarning, match="few classes"):
        Observers(Observer()).warned("few classes")
