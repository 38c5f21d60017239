# ruff: noqa: E501 (a table of cases, one per line)
"""Models that cannot be: each is refused in one sentence that says the way out, before anything is written."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from smoothcert.cli import app

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def graph(
    *,
    node: Any = None,
    inputs: Any = (("x", FLOAT, ["n", 4]),),
    outputs: Any = (("y", FLOAT, ["n", 2]),),
    weights: Any = None,
) -> onnx.ModelProto:
    """x (n, 4) @ w (4, 2), or what is asked for instead."""
    w = numpy_helper.from_array(np.ones((4, 2), dtype=np.float32), "w") if weights is None else weights
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]) if node is None else node],
        "g",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [w],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(made, opset_imports=domains, ir_version=8)


def external(location: str, offset: int = 0) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": str(offset), "length": "32"}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def onnx_file(model: onnx.ModelProto) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "w.bin").write_bytes(bytes(32))
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        return "net.onnx"

    return write


def raw(name: str, content: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return name

    return write


def zipped(name: str, entries: dict[str, bytes]) -> Callable[[Path], str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return raw(name, buffer.getvalue())


def python(source: str, name: str = "net") -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "mine.py").write_text(source)
        return f"mine.py:{name}"

    return write


def saved(content: Any) -> Callable[[Path], str]:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return raw("checkpoint.pth.tar", buffer.getvalue())


def folder_of(files: dict[str, bytes]) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        for name, content in files.items():
            raw(f"hf/{name}", content)(folder)
        return "hf"

    return write


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("ran",))


def escaping(folder: Path) -> str:
    """A link beside the file that leads out of its folder."""
    (folder / "net").mkdir()
    (folder / "secret.bin").write_bytes(bytes(32))
    (folder / "net" / "w.bin").symlink_to(folder / "secret.bin")
    (folder / "net" / "net.onnx").write_bytes(graph(weights=external("w.bin")).SerializeToString())
    return "net/net.onnx"


LENET = {
    "conv1.weight": torch.zeros(20, 1, 5, 5),
    "fc1.weight": torch.zeros(500, 800),
    "fc2.weight": torch.zeros(10, 500),
}
PAYLOAD = json.dumps(
    {"config": {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}}}
)
WEIGHTS = safetensors.torch.save({"w": torch.zeros(2)})
CASES: dict[str, tuple[Callable[[Path], str], str]] = {
    "no such file": (lambda _: "nowhere.onnx", "nowhere.onnx does not exist; check the path"),
    "no such thing": (lambda _: "nowhere", "nowhere does not exist; give one of"),
    "keras": (raw("net.h5", b"\x89HDF"), "is not a model that smoothcert can read: it reads"),
    "an empty folder": (lambda folder: str((folder / "a").mkdir() or "a"), "is not a model that smoothcert can read"),
    "torn onnx": (raw("net.onnx", b"\x08\x07\x12\xff\xff"), "is not a whole ONNX file; copy or export it again"),
    "empty onnx": (raw("net.onnx", b""), "holds no network: its ONNX graph is empty; export it again"),
    "custom operator": (onnx_file(graph(node=helper.make_node("Magic", ["x", "w"], ["y"], domain="mine"))), "uses the custom operator mine:Magic, which needs code of its maker; export it with standard operators"),
    "random operator": (onnx_file(graph(node=helper.make_node("RandomNormalLike", ["x"], ["y"]))), "draws at random (RandomNormalLike), and smoothing needs a fixed function; export it in evaluation mode"),
    "weights above": (onnx_file(graph(weights=external("../w.bin"))), "names weights outside of its folder ('../w.bin'), which are not read; put them beside it"),
    "weights anywhere": (onnx_file(graph(weights=external("/etc/passwd"))), "names weights outside of its folder ('/etc/passwd')"),
    "weights by a link": (escaping, "names weights outside of its folder ('w.bin')"),
    "weights missing": (onnx_file(graph(weights=external("gone.bin"))), "needs its data file gone.bin, which is not beside it; copy both"),
    "weights too short": (onnx_file(graph(weights=external("w.bin", 16))), "names weights that its data file does not hold; copy both files again"),
    "whole numbers": (onnx_file(graph(inputs=(("x", INT64, ["n", 4]),))), "takes int64 numbers (x), but noise makes real numbers of inputs"),
    "two inputs": (onnx_file(graph(inputs=(("x", FLOAT, ["n", 4]), ("t", FLOAT, [1])))), "must take one input, the image, but takes x, t; fix the others at export"),
    "a map of scores": (onnx_file(graph(outputs=(("y", FLOAT, ["n", 2, 8, 8]),))), "must answer a score per class, (batch, classes), in one output, but answers y (n, 2, 8, 8); export the scores alone"),
    "one score": (onnx_file(graph(outputs=(("y", FLOAT, ["n", 1]),))), "answers one number per input, not a score per class; wrap it in Python"),
    "onnx that no runtime loads": (onnx_file(graph(node=helper.make_node("MatMul", ["x", "x", "w"], ["y"]))), "ONNX Runtime cannot load"),
    "torn torchscript": (zipped("net.pt", {"net/constants.pkl": b"", "net/code/a.py": b"x"}), "is not a whole TorchScript file; copy or save it again"),
    "torn pt2": (zipped("net.pt2", {"net/models/model.json": b"{"}), "export it again with torch.export.save"),
    "pickles in a pt2": (zipped("net.pt2", {"net/models/model.json": b"{}", "net/data/weights/model_weights_config.json": PAYLOAD.encode()}), "holds pickled objects, which are never read; export it again"),
    "compiled code in a pt2": (zipped("net.pt2", {"net/models/model.json": b"{}", "net/data/aotinductor/a.so": b""}), "holds compiled code"),
    "a pickled model": (saved(Bomb()), "cannot be read as weights alone (a pickle may run code, so nothing else in it is read); save the weights by themselves"),
    "a bare pickle": (raw("net.pkl", pickle.dumps(Bomb())), "cannot be read as weights alone"),
    "no weights": (saved({"epoch": 3}), "holds no weights under state_dict, net"),
    "weights without a name": (saved({"state_dict": LENET}), "does not name its network; give --arch"),
    "another network": (saved({"arch": "wide_resnet", "state_dict": LENET}), "names the network 'wide_resnet'; give --arch"),
    "weights that are missing": (saved({"arch": "lenet", "state_dict": LENET}), "does not fit the architecture lenet-small: the tensor"),
    "a bare python file": (lambda folder: python("net = 1")(folder).partition(":")[0], "mine.py needs the name of the model in it; give mine.py:net"),
    "a name that is not there": (python("def other(): pass"), "mine.py has no net; it defines other"),
    "python that fails": (python("import nothing_of_that_name"), "cannot be run (ModuleNotFoundError: No module named 'nothing_of_that_name'); mend it"),
    "a number": (python("net = 3"), "is int, not a torch module or a function that makes one"),
    "a factory with arguments": (python("def net(a, b): pass"), "needs 2 arguments; give a function without arguments that builds the model"),
    "a factory that fails": (python("def net(): raise OSError('no weights')"), "cannot build the model (OSError: no weights); mend the function"),
    "a factory of nothing": (python("def net(): return None"), "builds NoneType, not a torch module; return the module"),
    "a package that is not there": (lambda _: "no_such_package.models:net", "the module no_such_package.models cannot be imported"),
    "hugging face, damaged": (folder_of({"config.json": b"["}), "config.json is not a Hugging Face configuration; save the model again"),
    "hugging face, pickled": (folder_of({"config.json": b'{"model_type": "vit"}', "pytorch_model.bin": b""}), "has no model.safetensors (pickled weights are never read)"),
    "hugging face, with code": (folder_of({"config.json": b'{"auto_map": {"a": "b"}}'}), "needs code of its own (auto_map), which is not run"),
    "somebody's safetensors": (raw("net.safetensors", WEIGHTS), "not a checkpoint that smoothcert saved (no 'smoothcert' metadata); say which network its weights are of: smoothcert model import"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_sentence(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, words = CASES[case]
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path)
    done = CliRunner().invoke(app, ["certify", "--model", source, "--data", "digits", "--sigma", "1", "--out", "run"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert words in done.stderr
    assert not Path("run").exists()
    assert not Path("ran").exists(), "no pickle was run"


WRONG_OPTIONS = {
    "--out net.pth": "--out must end in .safetensors or .onnx",
    "--out new.safetensors": "is no network of ours, so --out must be an .onnx file",
    "--out new.onnx --arch lenet": "--arch goes with a file of weights",
    "--out new.onnx --normalize cifar10": "--normalize cifar10 has 3 channels, and the model takes 4",
    "--out new.onnx --normalize nonsense": "--normalize must be cifar10, imagenet, mnist, half, 255, or means",
    "--out new.onnx --shape 3,x": "--shape must be whole numbers with commas between them",
    "--out new.onnx --data digits": "has inputs of shape (1, 8, 8) but the model onnx takes (4,)",
}


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_wrong_options_of_import(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx_file(graph())(tmp_path)
    done = CliRunner().invoke(app, ["model", "import", "net.onnx", *options.split()])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert WRONG_OPTIONS[options] in done.stderr
    assert not Path("new.onnx").exists()
