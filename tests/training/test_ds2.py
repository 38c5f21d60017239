"""Strengths of the noise for each input: improved once per epoch, kept, the same for any number of processes."""

from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.noise import Laplace, Noise, Uniform
from smoothcert.noise.ascent import ascend
from smoothcert.training import DS2, Group, Session, Settings, train
from smoothcert.training.objectives import MACER, PGD, AdvMACER, Gaussian, Objective, SmoothAdv

Start = Callable[..., BaseProcess]
NOISE = GaussianNoise(0.5)
OBJECTIVES = [
    Gaussian(NOISE),
    SmoothAdv(NOISE, PGD(0.1, 1), draws=2),
    MACER(NOISE, draws=2),
    AdvMACER(NOISE, draws=2, attack=PGD(0.1, 1)),
]


def model(*extra: nn.Module) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), *extra, nn.ReLU(), nn.Linear(8, 2))


def data(size: int = 20) -> tuple[Tensor, Tensor]:
    x = torch.rand(size, 2, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0.5).long()


def session(ds2: DS2 | None, *, epochs: int = 3, objective: Objective = OBJECTIVES[0], **options: int) -> Session:
    return Session(model(), data(), objective, Settings(epochs, batch_size=8, ds2=ds2, **options), None, None)  # type: ignore[arg-type]


def run_epochs(one: Session, count: int) -> None:
    for _ in range(count):
        one.run_epoch(1e9, lambda _done, _total: None)


def test_strengths_start_after_the_first_epochs_and_move_once_per_epoch() -> None:
    one = session(DS2(start=1, lr=0.01))
    run_epochs(one, 1)
    assert torch.equal(one.of_inputs.kept["strengths"], torch.full((20,), 0.5))
    run_epochs(one, 1)
    second = one.of_inputs.kept["strengths"].clone()
    assert bool((second != 0.5).all())
    run_epochs(one, 1)
    assert bool((one.of_inputs.kept["strengths"] != second).all())


def test_the_first_step_is_one_of_ddrs_in_evaluation_mode() -> None:
    """A batch of one chunk, by hand: dropout is off for the step, and the strengths go to the rows of the batch."""
    net, (x, y), ds2 = model(nn.Dropout(0.5)), data(), DS2(start=0, lr=0.01, draws=3)
    one = Session(net, (x, y), OBJECTIVES[0], Settings(1, batch_size=20, ds2=ds2), None, None)
    order = torch.randperm(20, generator=generator(0, "train", "order", 0))
    zeros = torch.zeros(60, 2)
    units = GaussianNoise(1.0).draw(zeros, generator(0, "train", "sigma/0/0", 0)).view(20, 3, 2)
    net.eval()
    expected = ascend(net, NOISE, x[order], torch.full((20,), 0.5), units, lr=0.01)
    net.train()
    run_epochs(one, 1)
    torch.testing.assert_close(one.of_inputs.kept["strengths"][order], expected, rtol=0, atol=0)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_every_objective_of_the_paper_is_trained_with_them(objective: Objective) -> None:
    at_once, later, never = (
        session(ds2, objective=objective) for ds2 in (DS2(start=0, lr=0.05), DS2(start=2, lr=0.05), None)
    )
    for one in (at_once, later, never):
        run_epochs(one, 2)
    first, second, third = (next(one.model.parameters()) for one in (at_once, later, never))
    assert not torch.equal(first, third)
    assert torch.equal(second, third), "before its start nothing changes"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_gives_the_strengths_of_its_own_chunks(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 inputs by chunks of 3: the last one joins the second chunk, which is of the second process."""
    settings = Settings(1, batch_size=7, chunk=3, ds2=DS2(start=0, lr=0.01))
    one, given = Session(model(), data(7), OBJECTIVES[0], settings, None, None), list[Tensor]()
    one.group = Group(rank, 2)
    monkeypatch.setattr(Group, "add_up", lambda _, tensors: given.append(tensors[-1].clone()))
    one._step(torch.arange(7))
    own = torch.arange(7) < 3 if rank == 0 else torch.arange(7) >= 3
    assert torch.equal(given[0] != 0, own)
    assert bool((given[0][own] != 0.5).all())


def test_floor_and_cap() -> None:
    one = session(DS2(start=0, lr=1e3, span=2.0))
    run_epochs(one, 3)
    assert set(one.of_inputs.kept["strengths"].tolist()) <= {0.25, 1.0}
    uniform = session(DS2(start=0, lr=0.1), objective=Gaussian(Uniform(0.5)))
    run_epochs(uniform, 1)
    assert bool((uniform.of_inputs.kept["strengths"] != 0.5).all())


@pytest.mark.slow
def test_killed_or_shared_strengths_end_the_same(start: Start, tmp_path: Path) -> None:
    """Killed after a state within the adapted epochs, by one process; and by two, which share the chunks of a batch."""
    whole = start(STATE=tmp_path / "a.safetensors", MODEL=tmp_path / "1.safetensors", KILL=None, GROUP=None, DS2=True)
    cut = start(
        STATE=tmp_path / "b.safetensors", MODEL=tmp_path / "2.safetensors", KILL=("step", 140), GROUP=None, DS2=True
    )
    pair = [
        start(
            STATE=tmp_path / "c.safetensors", MODEL=tmp_path / "3.safetensors", KILL=None,
            GROUP=(rank, 2, tmp_path / "meet"), DS2=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    cut.join()
    assert cut.exitcode != 0
    again = start(STATE=tmp_path / "b.safetensors", MODEL=tmp_path / "2.safetensors", KILL=None, GROUP=None, DS2=True)
    for process in (whole, again, *pair):
        process.join()
        assert process.exitcode == 0
    one, resumed, two = (load_file(tmp_path / f"{name}.safetensors") for name in "abc")
    assert len(set(one["strengths"].tolist())) > 100
    assert all(torch.equal(resumed[name], one[name]) for name in one), "bit for bit, strengths too"
    # Sums over processes are rounded otherwise, and a class that tips over moves a strength otherwise: rarely.
    torch.testing.assert_close(two["strengths"], one["strengths"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": -1}, "start and draws of ds2 must be whole numbers"),
        ({"draws": 0}, "start and draws of ds2 must be whole numbers"),
        ({"lr": 0.0}, "lr of ds2 must be above 0"),
        ({"span": 1.0}, "span above 1"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DS2(**options)  # type: ignore[arg-type]


def test_a_start_after_the_end_is_said() -> None:
    with pytest.raises(InputError, match="ds2 would start after 50 epochs, and there are 3"):
        session(DS2())


@pytest.mark.parametrize("noise", [Laplace(0.5), GaussianNoise(0.5, grid=1 / 255)], ids=["laplace", "grid"])
def test_noise_that_cannot_be_improved(noise: Noise) -> None:
    with pytest.raises(InputError, match="ds2 needs an objective that classifies, and noise with a differentiable"):
        train(model(), data(), Gaussian(noise), epochs=1, ds2=DS2(start=0))
