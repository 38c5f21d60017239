"""A fault at every write, flush, rename and link in turn, as SQLite tests itself: nothing acknowledged is ever lost."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# A fault per operation and way to fail: fewer would mean that operations go unseen.
LEAST = {"certify": 10, "attack": 9, "memory": 40, "checkpoint": 4, "ensemble": 4, "train": 25, "exports": 14}


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the shim between Python and the C library needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, HERE / "shim.c", "-ldl"], check=True)
    return library


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: thousands of flushes of a disk take minutes, and kills do not need one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="smoothcert-faults-", dir=memory) as made:
        yield Path(made)


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(LEAST))
def test_a_fault_at_every_operation_loses_nothing(workload: str, shim: Path, folder: Path) -> None:
    paths = os.pathsep.join(path for path in (str(HERE.parent / "support"), os.environ.get("PYTHONPATH")) if path)
    environment = os.environ | {"LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, str(HERE / "inject.py"), workload, str(folder)],
        env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["wrong"] == [], "\n\n".join(result["wrong"][:3])
    assert result["said"], "without a fault it acknowledges something"
    print(f"{workload}: {result['faults']}")
    assert min(result["faults"].values()) >= LEAST[workload], result["faults"]
