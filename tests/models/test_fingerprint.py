import collections
import copy
import enum
import functools
import importlib
import io
import itertools
import logging
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from smoothcert.models import Architecture, build, fingerprint, names
from smoothcert.models.fingerprint import weights_digest

SPEC = Architecture("cifar-resnet20", 10, (3, 32, 32), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
SCALE = 1.0


class Holder(nn.Module):
    """A module with one attribute, which its answer depends on."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self._value = value

    def forward(self, x: Tensor) -> Tensor:
        return x


def holding(value: object) -> str | None:
    return fingerprint(Holder(value))


def linear(weight: float) -> nn.Linear:
    layer = nn.Linear(2, 2, bias=False)
    nn.init.constant_(layer.weight, weight)
    return layer


@pytest.fixture
def model() -> nn.Module:
    return build(SPEC, seed=0)


def test_it_is_a_known_constant_for_known_weights():
    """Pinned: a change of this value would make every stored certificate that of an unknown classifier."""
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0]]))
        layer.bias.copy_(torch.tensor([0.5]))
    assert fingerprint(layer) == "4e7a1f4b70c9af41716cc018f798968e60e1a70c7845ee68d52b05eaac58e1dd"


def test_the_digest_of_weights_is_a_known_constant():
    """Pinned: every checkpoint holds the digest of its weights, and is refused if it has changed."""
    weights = {"b": torch.tensor([[1.0, -2.0]]).T, "a": torch.tensor(3), "é": torch.ones(2, dtype=torch.bfloat16)}
    assert weights_digest(weights) == "3b3a33f33ddb07328fe2ce0960ab627c9e9d1335b62d8f6149bd13b3b4a1ad00"


def test_it_does_not_depend_on_mode_gradients_or_memory_format(model):
    expected = fingerprint(model)
    assert len(expected) == 64
    assert fingerprint(copy.deepcopy(model)) == expected
    assert fingerprint(copy.deepcopy(model).eval().requires_grad_(False)) == expected
    channels_last = copy.deepcopy(model).to(memory_format=torch.channels_last)
    assert not channels_last[1].stages[0][0].conv1.weight.is_contiguous()
    assert fingerprint(channels_last) == expected


def test_the_device_does_not_count():
    assert holding(torch.device("cpu")) == holding(torch.device("cuda:1")) is not None


def test_running_the_model_does_not_change_it(model):
    model.eval()
    before = fingerprint(model)
    model(torch.rand(2, 3, 32, 32))
    assert fingerprint(model) == before


@pytest.mark.parametrize("name", ["1.conv.weight", "1.classifier.bias", "1.bn.running_var", "0.mean"])
def test_one_ulp_of_one_weight_changes_it(model, name):
    before = fingerprint(model)
    weight = model.state_dict()[name].view(-1)
    weight[-1] = torch.nextafter(weight[-1], torch.tensor(torch.inf))
    assert fingerprint(model) != before


def test_dtype_name_and_shape_count():
    prints = {
        fingerprint(nn.Linear(2, 2, bias=False)),
        fingerprint(nn.Linear(2, 2, bias=False).double()),
        fingerprint(nn.Sequential(nn.Linear(2, 2, bias=False))),
    }
    assert len(prints) == 3
    flat, square = nn.Module(), nn.Module()
    flat.register_buffer("w", torch.zeros(4))
    square.register_buffer("w", torch.zeros(2, 2))
    assert fingerprint(flat) != fingerprint(square)


def test_options_and_classes_of_layers_count():
    weight = torch.zeros(4, 4, 3, 3)
    prints = set()
    for options in ({"stride": 1}, {"stride": 2}, {"padding": 1}, {"padding": 1, "padding_mode": "reflect"}):
        layer = nn.Conv2d(4, 4, 3, bias=False, **options)
        layer.weight.data = weight
        prints.add(fingerprint(layer))
    prints |= {
        fingerprint(nn.ReLU()),
        fingerprint(nn.Tanh()),
        fingerprint(nn.MaxPool2d(2)),
        fingerprint(nn.MaxPool2d(3)),
    }
    assert len(prints) == 8


def test_an_unsaved_buffer_counts():
    def net(value: float) -> nn.Module:
        module = nn.Module()
        module.register_buffer("temperature", torch.tensor(value), persistent=False)
        return module

    assert fingerprint(net(1.0)) != fingerprint(net(2.0))


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


@dataclass(frozen=True)
class Options:
    k: int
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class OtherOptions:
    k: int
    weights: tuple[float, ...] = ()


def times(x: Tensor, factor: float = 2.0) -> Tensor:
    return x * factor


def scaled_by(factor: object) -> Callable[[Tensor], object]:
    def scaled(x: Tensor) -> object:
        return (factor, x)

    return scaled


PAIRS: dict[str, tuple[Any, Any]] = {
    "tensor attribute": (torch.zeros(2), torch.ones(2)),
    "dtype of a tensor": (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
    "shape of a tensor": (torch.zeros(4), torch.zeros(2, 2)),
    "private number": (1.0, 2.0),
    "int or float": (1, 1.0),
    "int or bool": (1, True),
    "number or text": (1, "1"),
    "zero with a sign": (0.0, -0.0),
    "list of modules": ([linear(1)], [linear(2)]),
    "length of a list of modules": ([linear(1)], [linear(1), linear(1)]),
    "order of a list of modules": ([linear(1), linear(2)], [linear(2), linear(1)]),
    "dict of modules": ({"a": linear(1)}, {"a": linear(2)}),
    "dict of numbers": ({"k": 1}, {"k": 2}),
    "key of a dict": ({"k": 1}, {"l": 1}),
    "order of a dict": ({"k": 1, "l": 2}, {"l": 2, "k": 1}),
    "kind of a dict": ({"k": 1}, collections.OrderedDict(k=1)),
    "set": ({1, 2}, {1, 3}),
    "set of modules": ({linear(1)}, {linear(2)}),
    "list or tuple": ([1], (1,)),
    "nesting": ([[1], 2], [[1, 2]]),
    "array": (np.zeros(2), np.array([0.0, 1.0])),
    "dtype of an array": (np.zeros(2), np.zeros(2, np.int64)),
    "scalar of numpy": (np.float32(1), np.float64(1)),
    "dtype": (torch.float32, torch.float64),
    "enum": (Mode.SUM, Mode.MEAN),
    "frozen dataclass": (Options(1), Options(2)),
    "class of a dataclass": (Options(1), OtherOptions(1)),
    "function of torch": (F.relu, F.gelu),
    "builtin of torch": (torch.relu, torch.tanh),
    "method of a tensor": (Tensor.relu, Tensor.tanh),
    "ufunc of numpy": (np.sin, np.cos),
    "own function": (times, scaled_by(1.0)),
    "partial": (functools.partial(times, factor=2.0), functools.partial(times, factor=3.0)),
    "body of a lambda": (lambda x: x + 1, lambda x: x + 2),
    "name in a lambda": (lambda x: 2 * torch.relu(x), lambda x: 2 * torch.tanh(x)),
    "default of a lambda": (lambda x, k=1: x * k, lambda x, k=2: x * k),
    "keyword of a lambda": (lambda x, *, k=1: x * k, lambda x, *, k=2: x * k),
    "number in a closure": (scaled_by(1.0), scaled_by(2.0)),
    "module in a closure": (scaled_by(linear(1)), scaled_by(linear(2))),
    "method of a module": (linear(1).forward, linear(2).forward),
    "class": (nn.ReLU, nn.Tanh),
    "mode of a module nobody switches": ([nn.BatchNorm1d(2).train()], [nn.BatchNorm1d(2).eval()]),
    "text that looks like structure": (["a", "b"], ["a', 'b"]),
    "module or its description": ([nn.ReLU()], [(nn.ReLU, vars(nn.ReLU()))]),
}


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS.keys())
def test_what_an_attribute_holds_counts(first, second):
    assert None not in (holding(first), holding(second))
    assert holding(first) != holding(second)


def test_no_attribute_of_the_table_is_taken_for_that_of_another_line():
    """Values of different types, or with different texts, among all that occur above."""
    shown = {(type(value), repr(value)): value for value in itertools.chain(*PAIRS.values())}
    plain = [value for (_, text), value in shown.items() if " at 0x" not in text and "bias=" not in text]
    assert len(plain) > 40
    assert len(set(map(holding, plain))) == len(plain)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        logging.getLogger("x"),
        [object()],
        {"a": (1, object())},
        iter([1]),
        torch.Generator(),
        np.array([object()]),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        scaled_by(object()),
        functools.partial(times, object()),
        nn.UninitializedParameter(),
        types.ModuleType("made_up"),
        [Holder(object())],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_identified_has_no_fingerprint(value):
    assert holding(value) is None


@pytest.mark.parametrize("kind", ["forward", "pre", "inner", "global"])
def test_a_hook_of_the_forward_pass_has_no_fingerprint(kind):
    net = nn.Sequential(linear(1))
    before = fingerprint(net)
    hook = {
        "forward": lambda: net.register_forward_hook(lambda *_: None),
        "pre": lambda: net.register_forward_pre_hook(lambda *_: None),
        "inner": lambda: net[0].register_forward_hook(lambda *_: None),
        "global": lambda: nn.modules.module.register_module_forward_hook(lambda *_: None),
    }[kind]()
    assert fingerprint(net) is None
    hook.remove()
    assert fingerprint(net) == before is not None


def test_a_forward_that_was_put_on_the_instance_counts():
    plain, patched, other = (linear(1) for _ in range(3))
    patched.forward = lambda x: x + 1
    other.forward = lambda x: x + 2
    assert len({fingerprint(plain), fingerprint(patched), fingerprint(other)}) == 3


def test_torchscript_relu_and_tanh_are_not_taken_for_one_another():
    with warnings.catch_warnings(action="ignore"):
        for net in (nn.ReLU(), nn.Tanh()):
            assert fingerprint(torch.jit.script(net)) is None
            assert fingerprint(nn.Sequential(torch.jit.trace(net, torch.rand(2)))) is None


class Calls(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def graph_calling(function: Callable[..., Any]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return torch.fx.GraphModule(nn.Module(), graph)


def test_graphs_of_fx_are_told_apart_by_what_they_run():
    nets = [torch.fx.symbolic_trace(Calls(function)) for function in (torch.relu, torch.tanh, times)]
    nets += [graph_calling(lambda x: x + 1), graph_calling(lambda x: x + 2)]  # the same text: a call of `_lambda_`
    assert nets[-1].code == nets[-2].code
    assert None not in map(fingerprint, nets)
    assert len(set(map(fingerprint, nets))) == 5
    for net in nets:
        assert fingerprint(copy.deepcopy(net)) == fingerprint(net) == fingerprint(torch.fx.GraphModule(net, net.graph))


def test_weights_behind_a_graph_count():
    assert fingerprint(torch.fx.symbolic_trace(linear(1))) != fingerprint(torch.fx.symbolic_trace(linear(2)))


def make_class(activation: Callable[[Tensor], Tensor], *, slope: float = 1.0) -> type[nn.Module]:
    class Net(nn.Module):
        steepness = slope

        def forward(self, x: Tensor) -> Tensor:
            return activation(x) * self.steepness

    return Net


def test_classes_of_one_name_are_told_apart_by_closures_and_class_attributes():
    kinds = (make_class(torch.relu), make_class(torch.tanh), make_class(torch.relu, slope=2.0))
    assert len({kind.__qualname__ for kind in kinds}) == 1
    assert len({fingerprint(kind()) for kind in kinds} - {None}) == 3
    assert fingerprint(kinds[0]()) == fingerprint(make_class(torch.relu)())


class Scaled(nn.Module):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x)

    def scale(self, x: Tensor) -> Tensor:
        return x * SCALE


def test_a_number_that_is_global_counts(monkeypatch):
    before = fingerprint(Scaled())
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert None is not before != fingerprint(Scaled())


SETTINGS = """
import types
SCALE, UNUSED = 1.0, 1.0
class Base:
    SCALE = 1.0
class Net(Base):
    pass
config = types.SimpleNamespace(SCALE=1.0, UNUSED=1.0)
"""
READERS = """
import os, sys
import torch
from torch import nn
import KIT.settings as settings
import KIT
from KIT.settings import config

class Net(nn.Module):
    def forward(self, x):
        more = [y * settings.SCALE * torch.pi for y in x if sys.argv]
        return sum(more) * KIT.settings.Net.SCALE + config.SCALE * len(os.sep)

class Plain(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def test_what_is_read_through_a_module_counts(tmp_path: Path, monkeypatch):
    """As of settings.SCALE: another value is another function. Not what nobody reads, nor what is Python's own."""
    (tmp_path / "KIT").mkdir()
    for name, text in {"__init__": "", "settings": SETTINGS, "readers": READERS}.items():
        (tmp_path / "KIT" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        readers, settings = (importlib.import_module(f"KIT.{name}") for name in ("readers", "settings"))
        before, plain = fingerprint(readers.Net()), fingerprint(readers.Plain())
        assert None not in (before, plain)
        for owner in (settings, settings.config):
            monkeypatch.setattr(owner, "UNUSED", 2.0)
        monkeypatch.setattr(sys, "argv", ["another process"])
        assert fingerprint(readers.Net()) == before
        found = {before}
        for owner in (settings, settings.Base, settings.config):
            monkeypatch.setattr(owner, "SCALE", 2.0)
            found.add(fingerprint(readers.Net()))
        assert len(found - {None}) == 4
        assert fingerprint(readers.Plain()) == plain
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "KIT"]:
            del sys.modules[name]


def test_a_function_of_the_same_file_counts(monkeypatch):
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    def net(x: Tensor) -> Tensor:
        return 1 + times(x)

    before = holding(net)
    monkeypatch.setitem(globals(), "times", doubled)
    assert None is not before != holding(net)


def test_a_method_that_was_replaced_counts(monkeypatch):
    before = fingerprint(Scaled())
    monkeypatch.setattr(Scaled, "scale", lambda self, x: -x)
    assert None is not before != fingerprint(Scaled())


def test_slots_hide_state_and_have_no_fingerprint():
    class Slotted(nn.Module):
        __slots__ = ("temperature",)

    assert fingerprint(Slotted()) is None


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = linear(1)
        self.parents = [self]
        self.again = [self.net, self.net]


def test_cycles_end():
    assert fingerprint(Recurrent()) == fingerprint(Recurrent()) is not None
    changed = Recurrent()
    changed.again = [changed.net, linear(1)]
    assert fingerprint(changed) != fingerprint(Recurrent())
    loop: list[Any] = []
    loop.append(loop)
    assert holding(loop) is None


def test_a_tensor_with_attributes_has_none_unless_they_are_those_of_a_buffer():
    weight = torch.zeros(2)
    weight.temperature = 2.0
    assert holding(weight) is None
    named, registered = nn.Module(), nn.Module()
    named.mean = nn.Buffer(torch.zeros(2))
    registered.register_buffer("mean", torch.zeros(2))
    assert fingerprint(named) == fingerprint(registered) is not None


def test_a_tuple_counts_by_value_and_not_by_where_it_lies():
    pair = (1, 2)
    assert holding([pair, pair]) == holding([(1, 2), tuple(range(1, 3))]) is not None


def test_tied_weights_count_by_value():
    tied, untied = (nn.Sequential(linear(1), linear(1)) for _ in range(2))
    tied[1].weight = tied[0].weight
    assert fingerprint(tied) == fingerprint(untied)


def test_a_lazy_layer_is_identified_once_it_has_its_weights():
    lazy = nn.LazyLinear(2, bias=False)
    assert fingerprint(lazy) is None
    lazy(torch.zeros(1, 2))
    nn.init.constant_(lazy.weight, 1)
    assert fingerprint(lazy) == fingerprint(linear(1))


def test_parametrizations_count_and_copies_agree():
    class Times(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, weight: Tensor) -> Tensor:
            return weight * self.factor

    nets = [linear(1), *(linear(1) for _ in range(2)), parametrizations.weight_norm(linear(1))]
    parametrize.register_parametrization(nets[1], "weight", Times(2.0))
    parametrize.register_parametrization(nets[2], "weight", Times(3.0))
    assert len(set(map(fingerprint, nets)) - {None}) == 4
    assert [fingerprint(copy.deepcopy(net)) for net in nets] == [fingerprint(net) for net in nets]


@pytest.mark.parametrize("state", [1, {"a": 1}, (torch.zeros(2), "x")], ids=repr)
def test_extra_state_counts(state):
    class WithState(nn.Module):
        def __init__(self, state: object) -> None:
            super().__init__()
            self.state = state

        def get_extra_state(self) -> object:
            return self.state

    assert None is not fingerprint(WithState(state)) != fingerprint(WithState(None))


@pytest.mark.parametrize("name", names())
def test_every_registered_network_is_identified(name):
    spec = Architecture(name, 10, (3, 32, 32))
    assert None is not fingerprint(build(spec, seed=0)) == fingerprint(build(spec, seed=0))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "Linear": lambda: nn.Linear(2, 2),
    "Conv2d": lambda: nn.Conv2d(1, 2, 3),
    "BatchNorm2d": lambda: nn.BatchNorm2d(2),
    "ReLU": nn.ReLU,
    "Dropout": nn.Dropout,
    "Embedding": lambda: nn.Embedding(3, 2),
    "Sequential": lambda: nn.Sequential(nn.Flatten(), nn.Linear(2, 2)),
    "ModuleList": lambda: nn.ModuleList([nn.GELU(), nn.Softmax(dim=1)]),
    "ModuleDict": lambda: nn.ModuleDict({"a": nn.Upsample(2)}),
    "ParameterList": lambda: nn.ParameterList([torch.rand(2)]),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2),
    "LSTM": lambda: nn.LSTM(2, 2, num_layers=2),
    "GRU": lambda: nn.GRU(2, 2, bidirectional=True),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, activation="gelu"),
    "Transformer": lambda: nn.Transformer(4, 2, 1, 1, batch_first=True),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_layers_of_torch_are_identified_and_keep_it_through_copies_and_files(make):
    layer = make()
    expected = fingerprint(layer)
    assert expected is not None
    assert fingerprint(copy.deepcopy(layer)) == expected
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert fingerprint(torch.load(file, weights_only=False)) == expected
    with torch.device("meta"):
        skeleton = make()
    skeleton.load_state_dict(layer.state_dict(), assign=True)  # as a checkpoint does
    assert fingerprint(skeleton) == expected


def test_transformers_differ_by_their_activation():
    torch.manual_seed(0)
    relu = nn.TransformerEncoderLayer(4, 2)
    other = copy.deepcopy(relu)
    other.activation = F.silu
    assert fingerprint(relu) != fingerprint(other)


SCRIPT = """
import sys
import torch
from torch import nn
from smoothcert.models import Architecture, build, fingerprint

inner = nn.Linear(2, 2, bias=False)
nn.init.constant_(inner.weight, float(sys.argv[1]))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = {"a", "b", "c", "d"}
        self.norm = lambda x: x / inner.weight.sum()

    def forward(self, x):
        return torch.FUNCTION(helper(x))

def helper(x):
    return inner(x) if len({"x", "y"} & {"z"}) else x

print(fingerprint(build(Architecture("lenet", 10, (1, 8, 8)), seed=0)), fingerprint(Net()))
"""


def test_other_processes_agree_and_see_a_changed_script(tmp_path: Path):
    """Whatever the hash seed, the place in memory; and a script that is edited, or run with another global model."""

    def run(seed: str, function: str = "relu", weight: str = "1") -> list[str]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.replace("FUNCTION", function))
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, str(script), weight]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    lenet, net = run("1")
    assert "None" not in (lenet, net)
    assert run("2") == [lenet, net]
    assert lenet == fingerprint(build(Architecture("lenet", 10, (1, 8, 8)), seed=0))
    assert run("1", function="tanh")[1] != net
    assert run("1", weight="2")[1] != net
