"""Progress for people."""

import pytest

from smoothcert.workflows.observer import task
from smoothcert.workflows.terminal import Bars, Lines, bars, terminal_observer


def test_the_time_left_is_known_where_steps_take_minutes() -> None:
    shown, now = bars(), 0.0
    shown.get_time = lambda: now
    one = shown.add_task("train", total=10)
    for done in range(1, 4):
        now += 100.0
        shown.update(one, completed=done)
    assert shown.tasks[0].time_remaining == 700


def test_no_terminal_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal_observer() as observer:
        assert isinstance(observer, Lines)
        with task(observer, "certify", total=2, note="2 certified") as under_way:
            under_way.advance(2)
        observer.message("all \x1b[31mdone")
        observer.warned("careful")
    out, err = capsys.readouterr()
    assert out == "all \\x1b[31mdone\n"
    assert err == "certify: started\ncertify: done in 0:00:00, 2 certified\nwarning: careful\n"


def test_bars_of_several_tasks_end_with_the_last_and_after_an_error() -> None:
    with Bars() as observer:
        for name in ("seed 0", "seed 1"):
            observer.started(name, total=None, done=0)
            observer.advanced(name, done=5, total=10, note="epoch 1/2")
        observer.finished("seed 0", note="")
        assert observer._bars.live.is_started
        observer.finished("seed 1", note="")
        assert not observer._bars.live.is_started
    observer = Bars()
    with pytest.raises(KeyError), observer, task(observer, "draw", total=10):
        raise KeyError
    assert not observer._bars.live.is_started
