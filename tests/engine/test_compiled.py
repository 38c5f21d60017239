"""Identity is decided once, and a changed model is noticed: by every way in which a model can change."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Compiled, SklearnClassifier, Smoothed, compiled
from smoothcert.engine.pools import WorkerRefusedError
from smoothcert.models import fingerprint
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Predict

QUICK, NOISE = Fixed(n0=20, n=200), Gaussian(0.5)
GLOBAL_SCALE = 1.0
GLOBAL_TABLE = [1.0, 2.0]


@dataclass
class Settings:
    shift: float = 0.5


class Everything(nn.Module):
    """State in all places where models keep it."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.norm = nn.BatchNorm1d(6)
        self.scale = 1.5
        self.options = {"clip": 3.0}
        self.order = [0, 1, 2]
        self.array = np.ones(3, dtype=np.float32)
        self.hidden = [nn.Linear(3, 3)]  # not registered
        self.plain = torch.zeros(3)
        self.settings = Settings()
        self.wide = nn.Parameter(torch.randn(3, 4).t()[:, :2])  # its numbers are not in one piece

    def forward(self, x: Tensor) -> Tensor:
        scores = self.hidden[0](self.layer(self.norm(x)))[:, self.order] * self.scale * self.factor * GLOBAL_SCALE
        extra = torch.from_numpy(self.array) + self.plain + self.settings.shift + GLOBAL_TABLE[0] + self.wide.sum()
        result: Tensor = (scores + extra).clamp(max=self.options["clip"])
        return result


def swap_rows(model: Everything) -> None:
    weight = model.layer.weight.data
    weight[[0, 1]] = weight[[1, 0]]


CHANGES: dict[str, Callable[[Everything], object]] = {
    "optimizer step": lambda m: step(m.layer),
    "in place": lambda m: m.layer.weight.requires_grad_(False).add_(1),
    "data": lambda m: m.layer.bias.data.add_(1),
    "data, one number": lambda m: m.layer.weight.data[1, 2:3].mul_(-1),
    "data, two rows swapped": swap_rows,
    "data, new": lambda m: setattr(m.layer.weight, "data", m.layer.weight.data + 1),
    "data, not in one piece": lambda m: m.wide.data.mul_(2),
    "through numpy": lambda m: m.norm.running_mean.numpy().__setitem__(0, 3.0),  # type: ignore[union-attr]
    "a buffer": lambda m: m.norm.running_var.fill_(2.0),  # type: ignore[union-attr]
    "another parameter": lambda m: setattr(m.layer, "bias", nn.Parameter(torch.ones(3))),
    "another module": lambda m: setattr(m, "layer", nn.Linear(6, 3)),
    "precision": lambda m: m.double(),
    "an attribute": lambda m: setattr(m, "scale", 2.0),
    "a new attribute": lambda m: setattr(m, "unused", 2.0),
    "a dictionary": lambda m: m.options.update(clip=1.0),
    "a list": lambda m: m.order.reverse(),
    "an array": lambda m: m.array.__setitem__(1, 5.0),
    "a plain tensor": lambda m: m.plain.add_(1),
    "a module that is not registered": lambda m: m.hidden[0].weight.data.add_(1),
    "an object": lambda m: setattr(m.settings, "shift", 1.0),
    "the class": lambda m: setattr(Everything, "factor", 3.0),
    "a global": lambda m: globals().update(GLOBAL_SCALE=2.0),
    "a global list": lambda m: GLOBAL_TABLE.__setitem__(0, 4.0),
}


def step(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(8, 6)).sum().backward()  # of scores that are not clamped: there is a gradient
    optimizer.step()


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Everything, "factor", 2.0)
    monkeypatch.setitem(globals(), "GLOBAL_SCALE", 1.0)
    monkeypatch.setitem(globals(), "GLOBAL_TABLE", [1.0, 2.0])


@pytest.mark.parametrize("name", list(CHANGES))
def test_every_change_is_noticed_at_the_next_call(name: str) -> None:
    model = Everything().eval()
    g = Smoothed(model, 3, NOISE, workers=1)
    before = g.compile((6,))
    assert g.compile((6,)) is before, "nothing changed"
    assert g.compile((6,)) is before
    CHANGES[name](model)
    after = g.compile((6,))
    assert after is not before
    assert g.describe(torch.rand(2, 6)) == Smoothed(model, 3, NOISE, workers=1).describe(torch.rand(2, 6))


def test_certificates_describe_what_was_sampled() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    g = Smoothed(model, 3, NOISE)
    x = torch.rand(2, 6)
    names = set()
    for shift in range(3):
        model[0].weight.data.add_(shift)
        (first, _), (prediction, _) = g.certify(x, QUICK), g.predict(x, Predict(n=50))
        assert first.classifier["fingerprint"] == prediction.classifier["fingerprint"] == fingerprint(model)
        names.add(first.classifier["fingerprint"])
    assert len(names) == 3


def test_a_model_that_was_only_touched_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    g = Smoothed(model, 3, NOISE)
    before = g.compile((6,))
    model.train()
    assert g.compile((6,)) is before
    model.eval()
    with torch.no_grad():
        model[0].weight.add_(1)
        model[0].weight.sub_(1).copy_(before.model[0].weight)  # type: ignore[index]
    assert g.compile((6,)) is before
    monkeypatch.setattr(compiled, "fingerprint", lambda _: pytest.fail("one look must do"))
    assert g.compile((6,)) is before


def test_what_cannot_be_identified_is_compiled_for_every_call() -> None:
    hooked = nn.Linear(6, 3)
    hooked.register_forward_hook(lambda *_: None)
    g = Smoothed(hooked, 3, NOISE)
    assert g.compile((6,)) is not g.compile((6,))
    assert g.describe(torch.rand(1, 6))["fingerprint"] is None


def test_a_function_is_kept_as_long_as_it_says_who_it_is() -> None:
    g = Smoothed(lambda x: x[:, :3], 3, NOISE)
    assert g.compile((6,)) is g.compile((6,))

    class Fitted:
        classes_ = np.arange(3)

        def predict(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return np.zeros(len(rows), dtype=int)

    globals()["Fitted"], Fitted.__qualname__ = Fitted, "Fitted"  # so that it can be pickled
    model = SklearnClassifier(Fitted())
    g = Smoothed(model, 3, NOISE)
    before = g.compile((6,))
    assert g.compile((6,)) is before
    model.classifier.extra = 1
    assert g.compile((6,)) is not before


def test_how_torch_computes_is_part_of_the_identity() -> None:
    g = Smoothed(nn.Linear(6, 3), 3, NOISE)
    before, precision = g.compile((6,)), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert g.compile((6,)).description["matmul"] == "medium" != before.description["matmul"]
    finally:
        torch.set_float32_matmul_precision(precision)


def test_inside_a_run_a_changed_model_is_refused() -> None:
    model = nn.Linear(6, 3)
    g = Smoothed(model, 3, NOISE)
    begun, x = g.compile((6,)), torch.rand(2, 6)
    assert len(list(g.certifying(x, QUICK, compiled=begun))) == 2
    model.weight.data.add_(1)
    with pytest.raises(InputError, match="the model was changed while the run was under way; certify into a new run"):
        list(g.certifying(x, QUICK, compiled=begun))


def test_several_shapes_are_kept_and_no_more_than_a_few() -> None:
    def pooled(x: Tensor) -> Tensor:
        return x.flatten(1)[:, :2]

    g = Smoothed(pooled, 2, NOISE)
    first = g.compile((3,))
    assert [g.compile((d,)).shape for d in range(3, 6)] == [(3,), (4,), (5,)]
    assert g.compile((3,)) is first
    for d in range(6, 6 + compiled.SHAPES):
        g.compile((d,))
    assert g.compile((3,)) is not first


def test_pickled_it_is_compiled_where_it_arrives() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    g = Smoothed(model, 3, NOISE)
    here = g.compile((6,))
    there: Compiled = pickle.loads(pickle.dumps(here))
    assert there.description == here.description
    assert there.executable.description == here.executable.description
    x = torch.rand(128, 6)
    with torch.inference_mode():
        assert torch.equal(there.executable.new_runner()(x), here.executable.new_runner()(x))
    message = pickle.dumps(here)
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(WorkerRefusedError, match="its matmul is medium"):
            pickle.loads(message)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_smoothed_classifier_can_be_pickled_copied_and_told_from_others() -> None:
    g = Smoothed(nn.Linear(6, 3), 3, Gaussian(0.25), seed=7, input_shape=(6,))
    x = torch.rand(3, 6)
    once = g.certify(x, QUICK)
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert other.certify(x, QUICK) == once
    assert repr(g) == "Smoothed(Linear, 3 classes, gaussian sigma=0.25, seed=7)"
    assert repr(g.compile((6,))).startswith("Compiled(Linear for (6,) by eager, 4096 rows per call, ")


def test_nothing_holds_a_classifier_that_nobody_needs() -> None:
    g = Smoothed(nn.Linear(6, 3), 3, NOISE, workers=2)
    g.certify(torch.rand(3, 6), QUICK)
    gone = weakref.ref(g.compile((6,)))
    del g
    gc.collect()
    assert gone() is None


def test_describe_needs_a_shape_only_where_the_shape_decides() -> None:
    assert Smoothed(nn.Linear(6, 3), 3, NOISE).describe()["backend"]["name"] == "eager"
    normed = Smoothed(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), 3, NOISE)
    with pytest.raises(InputError, match=r"give input_shape to Smoothed, or inputs: describe\(x\)"):
        normed.describe()
    assert normed.describe(torch.rand(2, 6))["backend"]["folded"]
    with pytest.raises(InputError, match="give input_shape"):
        normed.describe()  # what was seen last decides nothing
