"""Pack public certification logs into the file that `smoothcert board` reads.

    python benchmarks/pack_board.py LOGS

LOGS is a folder of DATA_NETWORK_METHOD_sigmaS.tsv.gz files, a row for each of the 10 000 test images. Kept are the
answer and the radius in thousandths, as the authors rounded it; what is right follows from the labels.
"""

import argparse
import gzip
import json
import re
from pathlib import Path

import numpy as np

from smoothcert.analysis.board import FILE

NAME = re.compile(r"(?P<data>[a-z0-9]+)_(?P<network>[a-z0-9]+)_(?P<method>[^_]+)_sigma(?P<sigma>[0-9.]+)\.tsv\.gz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    arguments = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    names = []
    for path in sorted(arguments.logs.glob("*.tsv.gz")):
        found = NAME.fullmatch(path.name)
        if found is None:
            raise SystemExit(f"{path.name} is not called DATA_NETWORK_METHOD_sigmaS.tsv.gz")
        with gzip.open(path, "rt") as file:
            header = file.readline().split()
            rows = [dict(zip(header, line.split("\t"), strict=False)) for line in file if line.strip()]
        index = np.array([int(row["idx"]) for row in rows])
        if not np.array_equal(index, np.arange(len(rows))):
            raise SystemExit(f"{path.name} does not have every image once, in order")
        labels = np.array([int(row["label"]) for row in rows], dtype=np.int8)
        known = arrays.setdefault(f"labels/{found['data']}", labels)
        if not np.array_equal(known, labels):
            raise SystemExit(f"{path.name} has other labels than the logs before it")
        key = f"{found['data']}/{found['network']}/{found['method']}/{float(found['sigma']):.2f}"
        radius = np.array([round(1000 * float(row["radius"])) for row in rows])
        answer = np.array([int(row["predict"]) for row in rows], dtype=np.int8)
        radius[answer < 0] = 0
        if radius.min() < 0 or radius.max() >= 2**16:
            raise SystemExit(f"{path.name} has a radius that does not fit")
        arrays[f"radius/{key}"], arrays[f"answer/{key}"] = radius.astype(np.uint16), answer
        names.append(key)
    np.savez_compressed(FILE, **arrays)
    print(json.dumps({"logs": len(names), "bytes": FILE.stat().st_size}))


if __name__ == "__main__":
    main()
