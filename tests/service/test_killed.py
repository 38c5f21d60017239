"""A server that is killed in the middle of its work, and started again: what it said is in the run, and once."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
from serving import checkpoint, images, png

from smoothcert.service.journal import ServiceFolder
from smoothcert.service.reveal import reveal
from smoothcert.workflows.verify import verify

CLIENTS, AFTER = 4, 6


def start(model: Path, out: Path) -> tuple["subprocess.Popen[str]", str]:
    options = ["--radius", "0.1", "--n", "2000", "--port", "0", "--workers", "1", "--rate", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothcert", "serve", "--model", str(model), "--out", str(out), *options],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if " answers at " in line:
            return process, line.split(" answers at ")[1].split()[0]
    raise AssertionError("the server did not start")


def load(url: str, work: "queue.Queue[Any]", heard: list[dict[str, Any]], enough: threading.Event) -> None:
    """Ask until there is nothing left, or nobody answers."""
    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                levels = work.get_nowait()
                heard.append(client.post("/certify", content=png(levels)).json())
            except (queue.Empty, httpx.HTTPError):
                return
            if len(heard) >= AFTER:
                enough.set()


def under_load(url: str, heard: list[dict[str, Any]], count: int, seed: int) -> tuple[list[threading.Thread], Any]:
    work: queue.Queue[Any] = queue.Queue()
    for levels in images(count, seed=seed):
        work.put(levels)
    enough = threading.Event()
    threads = [threading.Thread(target=load, args=(url, work, heard, enough)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    return threads, enough


def test_accepted_answers_are_in_the_run_and_none_twice(tmp_path: Path) -> None:
    model, out, heard = checkpoint(tmp_path), tmp_path / "out", list[dict[str, Any]]()
    process, url = start(model, out)
    threads, enough = under_load(url, heard, 400, seed=0)
    assert enough.wait(120)
    process.kill()  # -9, with clients waiting
    process.wait()
    for thread in threads:
        thread.join()
    before = len(heard)
    process, url = start(model, out)
    for thread in under_load(url, heard, 8, seed=0)[0]:
        thread.join()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert before >= AFTER
    assert len(heard) == before + 8
    written: dict[str, list[dict[str, Any]]] = {}
    runs = reveal(out)
    for path in out.glob("*/run.json"):
        folder = ServiceFolder.open(path.parent)
        written[folder.config.key] = [json.loads(line.text) for line in folder.lines()]
    assert len(written) == 2
    for lines in written.values():
        ids = [line["certificate"]["input_id"] for line in lines]
        assert len(set(ids)) == len(ids)
    for answer in heard:
        (line,) = (one for one in written[answer["seed"]["hash"]] if one["digest"] == answer["receipt"])
        assert line["certificate"]["radius"] == answer["radius"]
        assert line["certificate"]["label"] == answer["label"]
    assert all(verify(one.run, model=model).holds for one in runs)
