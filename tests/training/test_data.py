"""What can be trained on: every kind gives the weights that plain tensors give."""

from typing import Any

import numpy as np
import pytest
import torch
from small_training import data, same, trained
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from smoothcert import datasets
from smoothcert.core.errors import InputError
from smoothcert.training import data as training_data
from smoothcert.training.data import training_data as as_data


class Pairs(TorchDataset[Any]):
    """Items one by one, as most people's data sets are; some draw a little of their own."""

    def __init__(self, x: Tensor, y: Tensor, *, jitter: float = 0.0, arrays: bool = False) -> None:
        self.x, self.y, self.jitter, self.arrays = x, y, jitter, arrays

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        x = self.x[number]
        if self.jitter:
            x = x + self.jitter * torch.randn(x.shape)
        return (x.numpy() if self.arrays else x), int(self.y[number])


def test_every_kind_of_data_gives_the_same_weights() -> None:
    x, y = data()
    wanted = trained()
    for kind in (
        (x.numpy(), y.numpy()),
        (x.double().numpy(), y.to(torch.int32).numpy()),
        TensorDataset(x, y),
        Pairs(x, y),
        Pairs(x, y, arrays=True),
        DataLoader(Pairs(x, y), batch_size=32, shuffle=True),
    ):
        assert same(trained(data=kind), wanted), kind
    loader = DataLoader(TensorDataset(x, y), batch_size=32)
    assert same(trained(data=loader, batch_size=None), wanted), "the loader's batch size is taken"


def test_what_items_draw_follows_from_the_seed() -> None:
    x, y = data()
    jittered = Pairs(x, y, jitter=0.5)
    before = torch.get_rng_state()
    a, b = trained(data=jittered), trained(data=jittered)
    assert same(a, b)
    assert not same(a, trained())
    assert torch.equal(before, torch.get_rng_state()), "the caller's generator stays put"


def test_a_data_set_of_ours_held_or_read(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = datasets.load("digits", "train")
    held = as_data(digits)
    monkeypatch.setattr(training_data, "MOST_BYTES", 1000)
    read = as_data(digits)
    assert type(held) is not type(read)
    rows = torch.tensor([5, 3, 1000])
    for a, b in zip(held.batch(rows), read.batch(rows), strict=True):
        assert torch.equal(a, b)
    assert (held.largest_label, read.largest_label, len(read)) == (9, 9, len(digits))


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Endless(), "whose items have numbers, got Endless"),
        (3, "got int"),
        ([], "is empty"),
        (Pairs(torch.zeros(4, 2), torch.tensor([0, 1, 0, 7])), "label 7"),
        (Pairs(torch.zeros(4, 2, dtype=torch.uint8), torch.zeros(4).long()), "must be float32"),
        ([torch.zeros(2), torch.zeros(2), torch.zeros(2)], "pairs of an input and a label"),
        ([(np.zeros(2, np.float32), 0), (np.zeros(2, np.float32), 0), (np.zeros(3, np.float32), 1)], "one shape"),
        ((np.full((3, 2), np.nan), np.zeros(3, np.int64)), "must be finite"),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(kind: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained(data=kind)
