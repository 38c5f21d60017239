"""A model that cannot be run is refused in one sentence that names the way out."""

import warnings

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.models import fingerprint
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Predict

QUICK, NOISE = Fixed(n0=20, n=200), Gaussian(0.5)
X = torch.rand(2, 6, generator=torch.Generator().manual_seed(0))


def test_truth_values_and_complex_numbers_are_no_scores() -> None:
    for model, words in [
        (lambda x: x[:, :2] > 0, "must return real numbers as scores, got truth values; return scores.float()"),
        (lambda x: x[:, :2] * 1j, "got complex numbers"),
    ]:
        with pytest.raises(InputError, match=words):
            Smoothed(model, 2, NOISE).certify(X, QUICK)
    whole = Smoothed(lambda x: (x[:, :2] > 0).long(), 2, NOISE).certify(X, QUICK)
    assert whole[0].draws == 220, "whole numbers are"


class Converting(nn.Module):
    """In half precision, and says so by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3).half()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x.half()).float()
        return scores


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision(dtype: torch.dtype, backend: str) -> None:
    """It is given inputs of its own kind: votes are those of a function that converts them, and it says what it is."""
    name = str(dtype).removeprefix("torch.")
    model = nn.Linear(6, 3).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = Smoothed(model, 3, NOISE, backend=backend)
        (found, _), (answer, _) = g.certify(X, QUICK), g.predict(X, Predict(n=50))
    assert (found.classifier["dtype"], found.classifier["kind"]) == (name, "Linear")
    assert found.classifier["fingerprint"] == fingerprint(model)
    assert found.classifier["fingerprint"] != Smoothed(model.float(), 3, NOISE).describe(X)["fingerprint"]
    model.to(dtype)
    by_hand = Smoothed(lambda x: model(x.to(dtype)).detach(), 3, NOISE)
    if backend == "eager":
        assert found.votes == by_hand.certify(X, QUICK)[0].votes
        assert answer.votes == by_hand.predict(X, Predict(n=50))[0].votes
    assert Smoothed(Converting(), 3, NOISE).certify(X, QUICK)[0].classifier["dtype"] == "float16"


def test_weights_of_several_precisions_are_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3).double())
    with pytest.raises(
        InputError, match=r"its weights are float32, float64: convert them to one kind, as in model.float"
    ):
        Smoothed(model, 3, NOISE).certify(X, QUICK)


def test_torchscript() -> None:
    """It is certified, under no fingerprint; and votes as the module that it was made of."""
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 3)
    model = nn.Sequential(*layers).eval()
    wanted = [c.label for c in Smoothed(model, 3, Gaussian(0.01)).certify(x, QUICK)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripts = [torch.jit.script(model), torch.jit.trace(model, torch.rand(4, 1, 8, 8)), torch.jit.script(model)]
        scripts[-1].train()
        for script in scripts:
            for options in ({"workers": 1}, {"workers": 2}, {"backend": "auto"}):
                g = Smoothed(script, 3, Gaussian(0.01), **options)  # type: ignore[arg-type]
                found = g.certify(x, QUICK)
                assert [c.label for c in found] == wanted
                assert [c.votes for c in g.certify(x, QUICK)] == [c.votes for c in found]
                assert found[0].classifier["fingerprint"] is None
        assert scripts[-1].training, "the original is not touched"


def test_images_with_the_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 3))
    images = torch.rand(2, 8, 8, 3)
    with pytest.raises(InputError, match=r"if these are images with the channels last, give x.permute\(0, 3, 1, 2\)"):
        Smoothed(model, 3, NOISE).certify(images, QUICK)
    with pytest.raises(InputError, match=r"got \(8, 8, 3\), with the channels last; give x.permute\(0, 3, 1, 2\)"):
        Smoothed(model, 3, NOISE, input_shape=(3, 8, 8)).certify(images, QUICK)
    assert len(Smoothed(model, 3, NOISE).certify(images.permute(0, 3, 1, 2), QUICK)) == 2


class Hungry(nn.Module):
    """Fails as machines do that have too little memory, for calls above some rows."""

    def __init__(self, error: Exception, most: int) -> None:
        super().__init__()
        self.layer, self.error, self.most = nn.Linear(6, 3), error, most

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise self.error
        scores: Tensor = self.layer(x)
        return scores


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes."),
        MemoryError(),
        RuntimeError("std::bad_alloc"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_names_batch_size(error: Exception) -> None:
    words = r"there is not enough memory for 128 noisy inputs of shape \(6,\) at once; give a batch_size below 128"
    for model in (Hungry(error, 64), Hungry(error, 64).forward):
        with pytest.raises(InputError, match=words):
            Smoothed(model, 3, NOISE).certify(X, QUICK)
        assert len(Smoothed(model, 3, NOISE, batch_size=64).certify(X, QUICK)) == 2, "the way out"


def test_memory_that_ends_on_the_way_names_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(6, 3)
    g = Smoothed(model, 3, NOISE, workers=2)
    g.certify(X, QUICK)

    def full(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(Gaussian, "fill_rows", full)
    with pytest.raises(InputError, match=r"give a batch_size below \d+"):
        g.certify(X, QUICK)


def test_really_too_little_memory() -> None:
    def wide(x: Tensor) -> Tensor:
        return x[:, :1].expand(len(x), 2**45).contiguous()[:, :2]  # petabytes

    with pytest.raises(InputError, match=r"give a batch_size below \d+"):
        Smoothed(wide, 2, NOISE).certify(X, QUICK)


def test_what_else_a_model_raises_is_said_and_kept() -> None:
    def broken(x: Tensor) -> Tensor:
        raise KeyError("weights")

    with pytest.raises(
        InputError, match=r"model cannot be run on a float32 batch of shape \((128|4096), 6\) \(KeyError: 'we"
    ) as held:
        Smoothed(broken, 2, NOISE).certify(X, QUICK)
    assert isinstance(held.value.__cause__, KeyError)
