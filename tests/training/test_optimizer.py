"""Any optimiser of torch, a moving average of weights, bfloat16: right, and resumed to the last bit."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_training import data, model, same, trained
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian
from smoothcert.training import Constant, train
from smoothcert.training.muon import Muon
from smoothcert.training.objectives import Gaussian as Objective

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adam with amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "muon": lambda p: Muon(p, lr=0.02, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "groups": lambda p: torch.optim.AdamW([{"params": p[:2], "lr": 0.001}, {"params": p[2:]}], lr=0.01),
}


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("ema", "mixed"), [(None, None), (0.9, None), (None, True)])
def test_interrupted_anywhere_it_ends_with_the_same_bits(
    name: str, ema: float | None, mixed: bool | None, tmp_path: Path
) -> None:
    options = {"optimizer": OPTIMIZERS[name], "ema": ema, "mixed_precision": mixed, "save_every": 0.0}
    whole = trained(**options)
    for stop in (1, 4, 6):
        state = tmp_path / f"{stop}.safetensors"

        def interrupt(done: int, _total: int, stop: int = stop) -> None:
            if done == stop:
                raise StoppedError

        with pytest.raises(StoppedError):
            trained(**options, state=state, on_step=interrupt)
        assert same(trained(**options, state=state), whole)


def test_a_step_is_the_optimiser_s_own() -> None:
    ours = trained(optimizer=OPTIMIZERS["groups"], epochs=1, batch_size=96, schedule=Constant())
    hand, (x, y) = model(), data()
    rates = OPTIMIZERS["groups"](list(hand.parameters()))
    order = torch.randperm(96, generator=generator(0, "train", "order", 0))
    hand.train()
    noisy = Gaussian(0.25).draw(x[order], generator(0, "train", "noise/0/0", 0))
    nn.functional.cross_entropy(hand(noisy), y[order]).backward()
    rates.step()
    for a, b in zip(ours.parameters(), hand.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_average_is_the_average_of_the_weights_after_each_step() -> None:
    seen: list[dict[str, Tensor]] = []
    one = model()

    def look(_done: int, _total: int) -> None:
        seen.append({name: value.detach().clone() for name, value in one.state_dict().items()})

    first = {name: value.detach().clone() for name, value in one.state_dict().items()}
    quiet = {"on_epoch": lambda _: None, "on_step": look}
    train(one, data(), Objective(Gaussian(0.25)), epochs=4, batch_size=32, ema=0.8, **quiet)
    wanted = first["0.weight"]
    for step, weights in enumerate(seen, start=1):
        decay = min(0.8, (1 + step) / (10 + step))
        wanted = decay * wanted + (1 - decay) * weights["0.weight"]
    torch.testing.assert_close(one.state_dict()["0.weight"], wanted)
    assert int(one.state_dict()["1.num_batches_tracked"]) == 12


def test_bfloat16_is_for_products_alone_and_on_a_cpu_only_where_it_is_asked_for() -> None:
    plain, default, mixed = (trained(mixed_precision=value) for value in (False, None, True))
    assert same(plain, default)
    assert not same(plain, mixed)
    for one, other in zip(plain.parameters(), mixed.parameters(), strict=True):
        assert other.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.05)
    assert next(mixed.parameters()).bfloat16().float().ne(next(mixed.parameters())).any(), "steps are not rounded"


def test_another_optimiser_does_not_go_on_from_the_state(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    trained(optimizer=OPTIMIZERS["adamw"], state=state)
    for other in (OPTIMIZERS["rmsprop"], lambda p: torch.optim.AdamW(p, lr=0.02), None):
        with pytest.raises(InputError, match="another training"):
            trained(optimizer=other, state=state)


def test_what_is_no_optimiser_is_one_sentence() -> None:
    for wrong, words in (
        (lambda p: p, "must make an optimiser of torch"),
        (lambda p: torch.optim.AdamW(p[:1], lr=0.1), "all the parameters"),
    ):
        with pytest.raises(InputError, match=words):
            trained(optimizer=wrong)
    with pytest.raises(InputError, match="lr, momentum of SGD and an optimizer say two things"):
        trained(optimizer=OPTIMIZERS["adamw"], lr=0.1, momentum=0.5)
    with pytest.raises(InputError, match="ema must lie in"):
        trained(ema=1.0)
    with pytest.raises(InputError, match="mixed_precision must be true or false, got 'yes'"):
        trained(mixed_precision="yes")


def test_progress_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    trained(on_epoch=None)
    assert capsys.readouterr().err.splitlines()[-1].startswith("epoch 3/3, loss ")
