"""Small networks on the embedded digits, as checkpoints."""

from pathlib import Path

import pytest

from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("members")
    spec = Architecture("lenet", 10, (1, 8, 8))
    paths = []
    for seed in range(3):
        objective = {"name": "macer" if seed else "gaussian"}
        details = {"noise": Gaussian(0.5).describe(), "seed": seed, "objective": objective}
        paths.append(folder / f"net{seed}.safetensors")
        save(paths[-1], build(spec, seed=seed), spec, details)
    return paths
