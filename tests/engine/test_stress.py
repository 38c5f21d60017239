"""Native networks under stress: made, used and dropped all the time, beside others who do the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smoothcert.engine.backends import installed

STRESS = """
import faulthandler, gc, sys, threading
faulthandler.enable()
import torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
from smoothcert.procedures import Fixed
from smoothcert.engine import Smoothed
from smoothcert.models.ensembles import Consensus, SoftVoting
from smoothcert.noise import Gaussian

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
members = [net] * 3  # three networks, one export
x, quick, over = torch.rand(3, 1, 8, 8), Fixed(n0=100, n=300), threading.Event()
kinds = [(kind, workers) for kind in (SoftVoting, Consensus) for workers in (2, 3)]

def made(turn):
    kind, workers = kinds[turn % 4]
    return Smoothed(kind(members), 3, Gaussian(0.25), backend="openvino", workers=workers)

kept = [made(turn) for turn in range(4)]  # their workers and networks stay; those of others come and go
wanted = [[c.votes for c in g.certify(x, quick)] for g in kept]

gc.freeze()  # what was imported need not be looked at every time

def collect():
    while not over.wait(0.01):
        gc.collect()

def certify(turn):
    answers = (kept[turn % 4] if turn % 3 == 0 else made(turn)).certifying(x, quick)
    if turn % 5 == 4:
        next(answers)  # and away with the rest
    else:
        assert [c.votes for _, c in sorted(answers, key=lambda pair: pair[0])] == wanted[turn % 4], "other votes"

collecting = threading.Thread(target=collect)
collecting.start()
try:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(certify, range(int(sys.argv[1]))))
finally:
    over.set()
print("whole")
"""


@pytest.mark.slow
@pytest.mark.skipif(not installed("openvino"), reason="openvino needs the extra openvino")
def test_many_short_runs_side_by_side_do_not_crash(tmp_path: Path) -> None:
    """Native networks made and dropped all the time, by threads that end, in processes that compete for the cores.

    Networks that the caller dropped, while the threads that had used them were still ending, crashed about one in forty
    runs of a busy machine. SMOOTHCERT_STRESS: how many runs of each process.
    """
    command = [sys.executable, "-c", STRESS, os.environ.get("SMOOTHCERT_STRESS", "10")]
    environment = os.environ | {"SMOOTHCERT_CACHE": str(tmp_path)}
    several = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [one.communicate(timeout=600) for one in several]
    assert [(one.returncode, out) for one, (out, _) in zip(several, said, strict=True)] == [(0, "whole\n")] * 3, said
