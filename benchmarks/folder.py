"""Peak memory of certifying a few images of a large folder of images that differ in size.

python benchmarks/folder.py                 # 50 000 images, 50 of them certified: below 500 MB
python benchmarks/folder.py --images 2000   # a quick look

The folder is made first (small PNGs in 100 classes, a few hundred megabytes of files would do as well: only those that
are certified are read). What is measured is the peak of the resident memory of a process that runs nothing but
`smoothcert certify`; of it, torch alone takes most.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian

CLASSES = 100
CHILD = """
import json, resource, sys
from smoothcert.cli import app
from smoothcert.cli import repeat_options
status = 0
try:
    app(args=repeat_options(sys.argv[1:]))
except SystemExit as end:
    status = end.code or 0
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"status": status, "megabytes": peak}))
"""


def make_folder(root: Path, images: int) -> None:
    """So many PNGs of 20 to 60 pixels a side; a few different contents, written under many names."""
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(200):
        height, width = rng.integers(20, 61, 2)
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, "PNG")
        contents.append(file.getvalue())
    for label in range(CLASSES):
        (root / f"class{label:03}").mkdir(parents=True)
    for k in range(images):
        (root / f"class{k % CLASSES:03}" / f"{k:06}.png").write_bytes(contents[k % len(contents)])


def certify(folder: Path, place: Path, limit: int, every: int) -> dict[str, float]:
    """Certify some of a folder in a process of its own; its peak memory in megabytes."""
    spec = Architecture("lenet", CLASSES, (3, 16, 16))
    save(place / "net.safetensors", build(spec, seed=0), spec, {"noise": Gaussian(0.25).describe()})
    options = ["--data", str(folder), "--resize", "18", "--crop", "16", "--limit", str(limit), "--every", str(every)]
    options += ["--n", "100", "--n0", "16", "--workers", "1", "--out", str(place / "run")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "certify", "--model", str(place / "net.safetensors"), *options],
        capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    if done.returncode or not done.stdout:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--limit", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        make_folder(Path(name) / "photos", options.images)
        print(f"{options.images} images made in {time.perf_counter() - began:.0f} s")
        began = time.perf_counter()
        found = certify(Path(name) / "photos", Path(name), options.limit, max(1, options.images // options.limit))
        took = time.perf_counter() - began
        print(f"{options.limit} of them certified in {took:.1f} s, peak {found['megabytes']:.0f} MB")
        if found["status"] or found["megabytes"] > 500:
            raise SystemExit("the bar is 500 MB")


if __name__ == "__main__":
    main()
