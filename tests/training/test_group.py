"""The processes that train one model together."""

import subprocess
import sys
from pathlib import Path

import pytest

from smoothcert.training import Group
from smoothcert.training.group import launched

THREADS = Path("/proc/self/task")

MEMBER = r"""
from pathlib import Path
import torch
from smoothcert.training import Group, launched

def gloo():
    return sum("gloo" in task.read_text() for task in Path("/proc/self/task").glob("*/comm"))

with launched("cpu"):
    weight = torch.nn.Parameter(torch.ones(3))
    torch.optim.SGD([weight], lr=0.1).step()
    total = torch.ones(1)
    Group.current().add_up([total])
    before = gloo()
print(f"{int(total)} {before > 0} {gloo()}\n", end="")  # one write: two processes share the stream
"""


def test_alone_there_is_no_group() -> None:
    assert Group.current() == Group(0, 1)
    assert Group().gather("x") == ["x"]
    with launched("cpu") as device:
        assert device == "cpu"
        assert Group.current().size == 1


@pytest.mark.slow
@pytest.mark.skipif(not THREADS.exists(), reason="threads are counted in /proc")
def test_no_thread_of_the_group_outlives_it(tmp_path: Path) -> None:
    """One that still holds a tensor when Python ends would abort the process, once in many runs."""
    script = tmp_path / "member.py"
    script.write_text(MEMBER)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 True 0"] * 2
