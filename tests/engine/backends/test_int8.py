"""One quantised file is one function, whatever a processor has for eight bits."""

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import Smoothed
from smoothcert.engine.backends import BACKENDS, base, installed, openvino, ort
from smoothcert.noise import Gaussian
from smoothcert.procedures.identity import flat, identifying

SHAPE, CLASSES, ROWS = (1, 8, 8), 4, 128
INT8 = [name for name, backend in BACKENDS.items() if backend.int8 and installed(name)]
needs_onnxruntime = pytest.mark.skipif("onnxruntime-int8" not in INT8, reason="needs the extra onnx")
needs_openvino = pytest.mark.skipif("openvino-int8" not in INT8, reason="needs the extra openvino")


class Averages(nn.Module):
    """Convolutions whose weights are nearly equal, of inputs that are nearly 1: the largest sums that there can be."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.second = nn.Conv2d(1, 16, 3, bias=False), nn.Conv2d(16, 8, 3, bias=False)
            self.out = nn.Linear(8 * 4 * 4, CLASSES)
            with torch.no_grad():
                self.first.weight.uniform_(0.9 / 9, 1 / 9)
                self.second.weight.uniform_(0.9 / 144, 1 / 144)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.second(self.first(x)).flatten(1))
        return scores


@pytest.fixture(scope="module")
def task() -> base.BackendTask:
    coarse = torch.rand(4 * ROWS, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    x = 1 - 0.6 * nn.functional.interpolate(coarse, SHAPE[1:])  # bright, and averages leave something of it
    net = Averages().eval()
    with torch.no_grad():
        net.out.bias.sub_(net(x).mean(0))  # about as many votes for each class
    return base.BackendTask(net, None, torch.device("cpu"), SHAPE, ROWS, x)


def check_votes(task: base.BackendTask, found: Tensor, wanted: Tensor) -> None:
    """Scores of int8 kernels, and of the same quantised graph without them.

    Both round activations to the same 256 numbers, but sum in another order before, so that few of them are rounded to
    the neighbour; saturated sums are off by a quarter of the range of scores.
    """
    assert task.calibration is not None
    assert isinstance(task.model, nn.Module)
    plain = task.model(task.calibration).detach()
    assert len(plain.argmax(1).unique()) > 2, "several classes have votes"
    spread = float(plain.max(0).values.sub(plain.min(0).values).max())
    assert float((found - wanted).abs().max()) < 0.03 * spread
    ranked = wanted.sort(dim=1, descending=True).values
    clear = ranked[:, 0] - ranked[:, 1] > 0.06 * spread
    assert float(clear.double().mean()) > 0.3
    assert torch.equal(found.argmax(1)[clear], wanted.argmax(1)[clear])
    assert float((found.argmax(1) == wanted.argmax(1)).double().mean()) > 0.9


def in_batches(run: Any, x: Tensor) -> Tensor:
    return torch.cat([run(part) for part in torch.split(x, ROWS)])


@needs_onnxruntime
def test_onnxruntime_votes_as_the_same_graph_without_int8_kernels(task: base.BackendTask) -> None:
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    content = ort._quantise(task)
    graph = onnx.load_from_string(content).graph
    weights = [numpy_helper.to_array(one) for one in graph.initializer]
    eights = [one for one in weights if one.dtype == np.int8 and one.ndim > 1]
    assert len(eights) == 3
    assert 60 <= max(int(np.abs(one.astype(int)).max()) for one in eights) <= 64, "2 * 255 * 64 fits in 16 bits"

    options = onnxruntime.SessionOptions()  # as written: numbers are rounded, and then multiplied in float32
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    assert task.calibration is not None
    wanted = in_batches(lambda x: torch.from_numpy(exact.run(None, {"x": x.numpy()})[0]), task.calibration)
    check_votes(task, in_batches(ort._session(content), task.calibration), wanted)


def openvino_parts(task: base.BackendTask) -> tuple[bytes, bytes]:
    content = openvino._quantise(task)
    size = struct.unpack("<Q", content[:8])[0]
    return content[8 : 8 + size], content[8 + size :]


ELSEWHERE = """
import sys, numpy, torch
from smoothcert.engine.backends.openvino import Network

folder, rows = sys.argv[1], int(sys.argv[2])
run = Network(open(f"{folder}/graph", "rb").read(), open(f"{folder}/weights", "rb").read())
x = torch.from_numpy(numpy.load(f"{folder}/x.npy"))
numpy.save(f"{folder}/scores.npy", torch.cat([run(part) for part in torch.split(x, rows)]).numpy())
"""


@needs_openvino
@pytest.mark.parametrize("instructions", [None, "AVX2"])
def test_openvino_votes_as_the_same_graph_without_int8_kernels(
    task: base.BackendTask, instructions: str | None, tmp_path: Path
) -> None:
    """Also with the instructions of a processor without VNNI, which its kernels can be held to."""
    import openvino as ov

    graph, weights = openvino_parts(task)
    core = ov.Core()
    model = core.read_model(graph, weights)
    constants = [op.get_data() for op in model.get_ordered_ops() if op.get_type_name() == "Constant"]
    eights = [one for one in constants if one.dtype == np.int8 and one.ndim > 1]
    assert len(eights) == 3
    assert 60 <= max(int(np.abs(one.astype(int)).max()) for one in eights) <= 64, "2 * 255 * 64 fits in 16 bits"

    options = {"LP_TRANSFORMS_MODE": False, "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    try:
        exact = core.compile_model(model, "CPU", options)
    except RuntimeError as error:  # instructions that OpenVINO counts on were switched off (ONEDNN_MAX_CPU_ISA)
        pytest.skip(f"no reference here: {' '.join(str(error).split())[:200]}")
    assert task.calibration is not None
    wanted = in_batches(lambda x: torch.from_numpy(exact(x.numpy())[0]), task.calibration)
    for name, content in (("graph", graph), ("weights", weights)):
        (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "x.npy", task.calibration.numpy())
    environment = dict(os.environ) | ({"ONEDNN_MAX_CPU_ISA": instructions} if instructions else {})
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path), str(ROWS)]
    subprocess.run(command, env=environment, check=True, timeout=300)
    check_votes(task, torch.from_numpy(np.load(tmp_path / "scores.npy")), wanted)


@pytest.mark.parametrize("name", INT8)
def test_what_the_processor_can_do_identifies_int8(
    name: str, cache: Path, calibration: Tensor, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described() -> dict[str, Any]:
        g = Smoothed(net, 3, Gaussian(0.1), backend=name, calibration=calibration, input_shape=SHAPE)
        return flat(g.describe())

    assert base.int8_sums() in ("16 bits", "32 bits")
    found = {}
    for sums in ("16 bits", "32 bits"):
        for where in (ort, openvino):
            monkeypatch.setattr(where, "int8_sums", lambda sums=sums: sums)
        found[sums] = described()
    one, other = ({key: about.get(key) for key in identifying(about)} for about in found.values())
    assert {key for key in one if one[key] != other[key]} == {"backend.int8_sums"}
    assert "backend.int8_sums" not in flat(Smoothed(net, 3, Gaussian(0.1), input_shape=SHAPE).describe())
