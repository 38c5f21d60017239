"""The commands of the page about serving: a server is started, asked, stopped and audited as the page says."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from documents import blocks_of
from PIL import Image

from smoothcert.datasets import load

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"


@pytest.mark.slow
def test_a_server_is_asked_stopped_and_audited(tmp_path: Path) -> None:
    serve, ask, _, reveal = (shlex.split(block.code, comments=True) for block in blocks_of(PAGE.read_text("utf-8")))
    Image.fromarray(load("mnist500", "test").inputs[0, 0]).save(tmp_path / "digit.png")
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothcert", *serve[1:], "--port", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = next(line.split()[3] for line in process.stdout if " answers at " in line)
    url = ask[-1].replace("http://127.0.0.1:8000/", address)
    found = httpx.post(url, content=(tmp_path / ask[-2].removeprefix("@")).read_bytes(), timeout=60).json()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert (found["label"], found["radius"]) == (7, 0.5)
    done = subprocess.run(
        [sys.executable, "-m", "smoothcert", *reveal[1:]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"1 answer under the key {found['seed']['hash']}")
