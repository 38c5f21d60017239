"""One small network in every format, and real networks that come inside other people's wheels."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from smoothcert.models.formats.onnx_export import exported


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
    ).eval()  # fmt: skip


PYTHON = """
import torch

torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
number = 7

def build():
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

def double():
    return build().double()

def function(x):
    return x.flatten(1)[:, :10]

def needs(a, b):
    return None

def broken():
    raise RuntimeError("no weights here")

def three():
    return 3

class Net(torch.nn.Module):
    num_classes, input_shape, class_names = 10, (1, 8, 8), list("abcdefghij")
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layer = torch.nn.Linear(64, 10)
    def forward(self, x):
        return self.layer(x.flatten(1))

class Odd(Net):
    def __init__(self):
        super().__init__()
        self.lock = object()
"""


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx, other.onnx, fixed.onnx, net.pt2, fixed.pt2, double.pt2, net.pt and my_models.py."""
    folder, net, x = tmp_path_factory.mktemp("zoo"), small(), torch.rand(5, 1, 8, 8)
    any_batch = ({0: torch.export.Dim.DYNAMIC},)
    (folder / "net.onnx").write_bytes(exported(net, x, any_batch=True))
    (folder / "other.onnx").write_bytes(exported(small(1), x, any_batch=True))
    (folder / "fixed.onnx").write_bytes(exported(net, x[:4], any_batch=False))
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=any_batch), folder / "net.pt2")
    torch.export.save(torch.export.export(net, (x,)), folder / "fixed.pt2")
    torch.export.save(
        torch.export.export(small().double(), (x.double(),), dynamic_shapes=any_batch), folder / "double.pt2"
    )
    torch.jit.script(net).save(folder / "net.pt")
    (folder / "my_models.py").write_text(PYTHON)
    return folder


@pytest.fixture(scope="session")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'smoothcert[huggingface]'")
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        num_channels=1, num_labels=10,
    )  # fmt: skip
    ViTForImageClassification(config).eval().save_pretrained(folder)
    return folder


def inside_wheel(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed: pip install --no-deps -r tests/networks.txt")
    return Path(spec.origin).parent / path


@pytest.fixture(scope="session")
def text_direction() -> Path:
    """Is a line of text upside down? RapidOCR's classifier: images (3, 48, 192), two classes."""
    return inside_wheel("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")


@pytest.fixture(scope="session")
def file_type() -> Path:
    """Of which type is a file? Magika's classifier: 2048 whole numbers, 214 classes."""
    return inside_wheel("magika", "models/standard_v3_3/model.onnx")
