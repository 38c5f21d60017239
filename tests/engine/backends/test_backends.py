"""What every backend must keep: the model's answers, votes that replay, a description of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert import engine
from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.engine.backends import BACKENDS, BackendTask, default_rows, installed, packs, prepare
from smoothcert.engine.backends.base import Executable, Padded
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed

CLASSES, NOISE, QUICK = 3, Gaussian(0.1), Fixed(n0=50, n=700)
EVERY = [
    pytest.param(
        name,
        marks=[
            pytest.mark.skipif(not installed(name), reason=f"{name} needs the extra {backend.extra}"),
            *([pytest.mark.slow] if name == "compile" else []),
        ],
    )
    for name, backend in BACKENDS.items()
]
QUICK_ONES = [name for name in BACKENDS if name != "compile" and installed(name)]


def votes(certificates: list[Certificate]) -> list[Any]:
    return [{name: tally.votes for name, tally in certificate.tallies.items()} for certificate in certificates]


@pytest.mark.parametrize("name", EVERY)
def test_a_backend_keeps_answers_and_votes_replay(
    name: str, net: nn.Module, calibration: Tensor, clear_inputs: Tensor
) -> None:
    def smoothed(workers: int) -> Smoothed:
        return Smoothed(net, CLASSES, NOISE, backend=name, calibration=calibration, workers=workers)

    g = smoothed(1)
    once = g.certify(clear_inputs, QUICK)
    assert g.describe(clear_inputs)["backend"]["name"] == name
    eager = Smoothed(net, CLASSES, NOISE).certify(clear_inputs, QUICK)
    assert [c.label for c in once] == [c.label for c in eager]
    two = smoothed(2)
    assert votes(two.certify(clear_inputs, QUICK)) == votes(once)
    assert votes(two.certify(clear_inputs.flip(0), QUICK))[::-1] == votes(once)
    assert [votes(two.certify(x[None], QUICK))[0] for x in clear_inputs[:2]] == votes(once)[:2]
    assert two.describe(clear_inputs) == g.describe(clear_inputs) == once[0].classifier


@pytest.mark.parametrize("name", EVERY)
def test_scores_of_float32_backends_are_the_models(name: str, net: nn.Module, calibration: Tensor) -> None:
    task = BackendTask(net, None, torch.device("cpu"), (1, 8, 8), 64, calibration[:1].repeat(64, 1, 1, 1))
    executable = prepare(name, task)
    assert executable.note is None
    x = torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 0.5
    with torch.inference_mode():
        wanted, got = net(x), executable.new_runner()(x)
    assert got.shape == wanted.shape
    if BACKENDS[name].int8:
        assert float((got - wanted).abs().max()) > 1e-3 * float(wanted.abs().max()), "it is another function"
        assert executable.description["precision"] == "int8"
        assert 0.5 <= executable.description["agreement"] <= 1
    else:
        assert float((got - wanted).abs().max()) < 1e-3 * float(wanted.abs().max())


def test_every_backend_and_calibration_is_described_otherwise(net: nn.Module, calibration: Tensor, cache: Path) -> None:
    found = {}
    for name in QUICK_ONES:
        for shift in (0.0, 0.01) if BACKENDS[name].int8 else (0.0,):
            arguments: dict[str, Any] = {"backend": name, "calibration": calibration + shift, "input_shape": (1, 8, 8)}
            found[name, shift] = Smoothed(net, CLASSES, NOISE, **arguments).describe()
            again = Smoothed(net, CLASSES, NOISE, seed=5, **arguments).describe()
            assert again == found[name, shift], "the same again, whatever the seed of the certificates"
            backend = found[name, shift]["backend"]
            assert {"name", "precision", "version"} <= set(backend)
            assert "folded" in backend if name == "eager" else len(backend["digest"]) == 64
    assert len({json.dumps(one, sort_keys=True) for one in found.values()}) == len(found)


class Branching(nn.Module):
    """Control flow that depends on the data cannot be exported, and must not be frozen into one branch."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(x.flatten(1))
        if float(scores.sum()) > 1e9:
            return -scores
        return scores


@pytest.mark.parametrize("name", [name for name in QUICK_ONES if name != "eager"])
def test_a_model_that_cannot_be_exported_is_run_by_eager_and_says_so(
    name: str, calibration: Tensor, cache: Path
) -> None:
    model = Branching()
    g = Smoothed(model, CLASSES, NOISE, backend=name, calibration=calibration)
    x = torch.rand(2, 1, 8, 8)
    with pytest.warns(UserWarning, match=rf"backend {name} cannot run this model \(it cannot be exported to ONNX"):
        found = g.certify(x, QUICK)
    assert g.describe(x)["backend"]["name"] == "eager"
    assert "run by eager" in str(g.compile(x.shape[1:]).note)
    assert votes(found) == votes(Smoothed(model, CLASSES, NOISE).certify(x, QUICK))


def test_refusals(net: nn.Module, calibration: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor) -> Tensor:
        return x.flatten(1)[:, :CLASSES]

    for arguments, words in [
        ({"model": net, "backend": "tensorrt"}, "backend must be one of eager, .* or auto, got 'tensorrt'"),
        ({"model": function, "backend": "openvino"}, "backend openvino runs torch modules only"),
        ({"model": function, "backend": "compile"}, "backend compile runs torch modules only"),
        ({"model": net, "backend": "openvino", "device": "meta"}, "runs on the CPU, got device meta"),
        ({"model": net, "backend": "openvino-int8"}, r"openvino-int8 needs (calibration|.*pip install)"),
    ]:
        with pytest.raises(InputError, match=words):
            Smoothed(num_classes=CLASSES, noise=NOISE, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give input_shape"):
        Smoothed(net, CLASSES, NOISE).describe()
    monkeypatch.setattr(engine.backends, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"onnxruntime needs onnx, onnxscript, onnxruntime; pip install 'smoothcert\["):
        Smoothed(net, CLASSES, NOISE, backend="onnxruntime")


def test_a_function_is_run_by_eager_also_for_auto() -> None:
    g = Smoothed(lambda x: x.flatten(1)[:, :CLASSES], CLASSES, NOISE, backend="auto")
    assert g.describe(torch.rand(2, 6))["backend"]["name"] == "eager"
    assert len(g.certify(torch.rand(2, 6), QUICK)) == 2


def test_padding_shows_the_model_one_shape_and_drops_what_it_added() -> None:
    shapes = set()

    def run(x: Tensor) -> Tensor:
        shapes.add(tuple(x.shape))
        return x * 2

    padded = Padded(run, 5)
    for rows in (1, 3, 5):
        x = torch.rand(rows, 2)
        assert torch.equal(padded(x), 2 * x)
    assert shapes == {(5, 2)}


class Positional(nn.Module):
    """Adds what no kernel should: something that depends on the place in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(6, 200_000)
        self.out = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) + 1e-6 * torch.arange(len(x))[:, None].div(128, rounding_mode="floor")


def test_rows_of_a_call_follow_from_the_model_and_the_shape() -> None:
    cpu = torch.device("cpu")
    assert default_rows(Positional(), cpu) == 384
    assert default_rows(nn.Linear(6, CLASSES), cpu) == default_rows(lambda x: x, cpu, (6,)) == 4096
    assert default_rows(nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 3)), cpu) == 512
    assert default_rows(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3)), cpu) == 128
    assert default_rows(lambda x: x, cpu, (3, 32, 32)) == default_rows(lambda x: x, cpu) == 128
    assert default_rows(nn.Linear(6, CLASSES), torch.device("cuda")) == 1024


def test_draws_share_a_call_only_where_their_place_does_not_matter() -> None:
    x = torch.rand(2, 6, generator=torch.Generator().manual_seed(0))
    for model in (Positional(), nn.Linear(6, CLASSES)):
        g = Smoothed(model, CLASSES, NOISE, workers=1)
        compiled = g.compile((6,))
        g.certify(x, QUICK)
        found = g._checked[compiled].packed
        if isinstance(model, Positional):
            assert not found
            assert not packs(compiled.executable, compiled.task)
        else:
            assert found == packs(compiled.executable, compiled.task)


def test_a_preparation_serves_until_the_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    once = BACKENDS["eager"].prepare

    def counting(task: BackendTask) -> Executable:
        made.append(task)
        return once(task)

    monkeypatch.setitem(BACKENDS._things, "eager", engine.backends.Backend(counting))
    model = nn.Linear(6, CLASSES)
    g = Smoothed(model, CLASSES, NOISE)
    for _ in range(3):
        g.certify(torch.rand(2, 6), QUICK)
    assert len(made) == 1
    with torch.no_grad():
        model.weight.add_(1.0)
    g.certify(torch.rand(2, 6), QUICK)
    assert len(made) == 2


@pytest.mark.slow
def test_calls_of_compile_may_be_cut_between_its_pieces(net: nn.Module) -> None:
    def prepared(rows: int) -> Executable:
        return prepare("compile", BackendTask(net, None, torch.device("cpu"), (1, 8, 8), rows))

    assert [prepared(rows).unit for rows in (100, 70)] == [25, None], "70 rows are no three equal pieces"
    executable = prepared(128)
    assert executable.unit == 32
    run, x = executable.new_runner(), torch.rand(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for cut in (32, 64, 96):
        assert torch.equal(run(x), torch.cat([run(x[:cut].clone()), run(x[cut:].clone())]))
