"""Inserts into a memory to the end, whatever happens to its server; arguments: WHERE SEED COUNT. Run by tests.

Everything that `insert` returned is printed as a line of JSON.
"""

import json
import sys
import time

import numpy as np
from forking import certificate

from smoothcert.memory import Memory

where, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(seed)
with Memory(where) as memory:
    for _ in range(count):
        x = rng.random(2).astype(np.float32)
        got = memory.insert(x, certificate(int(rng.integers(0, 4)), float(rng.random() * 0.2)))
        print(json.dumps({"x": x.tolist(), "label": got.label, "radius": got.radius}), flush=True)
        time.sleep(0.03)  # a server that is up for a moment only is to be met in the middle
