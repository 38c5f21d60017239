"""Directions of an attack that goes on: kept for each input, the same for any number of processes, after any kill."""

import copy
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Dataset

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import Augment, Group, Session, Settings, of_inputs
from smoothcert.training.objectives import AdvMACER, Carried, Consistency, Objective, SmoothAdv
from smoothcert.training.objectives.attack import soft_gradient, unit_direction
from smoothcert.training.objectives.base import additive_noise

Start = Callable[..., BaseProcess]
NOISE = GaussianNoise(0.5)
CARRIED = Carried(0.1)
OBJECTIVES = [
    SmoothAdv(NOISE, CARRIED, draws=2, warmup=0),
    Consistency(NOISE, attack=CARRIED, warmup=0),
    AdvMACER(NOISE, draws=2, attack=CARRIED, warmup=0),
]


def session(objective: Objective = OBJECTIVES[0], size: int = 20, **options: int) -> Session:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.rand(size, 3, generator=torch.Generator().manual_seed(0))
    settings = Settings(3, batch_size=options.pop("batch_size", 8), **options)  # type: ignore[arg-type]
    return Session(net, (x, (x[:, 0] > 0.5).long()), objective, settings, None, None)


class Restless(Dataset[tuple[Tensor, int]]):
    """Another image every time."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, _: int) -> tuple[Tensor, int]:
        return torch.rand(3), 0


def run_epochs(one: Session, count: int = 1) -> None:
    for _ in range(count):
        one.run_epoch(1e9, lambda _done, _total: None)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_each_input_has_a_direction_that_turns_once_per_epoch(objective: Objective) -> None:
    one = session(objective)
    directions = one.of_inputs.kept["directions"]
    assert not directions.any()
    run_epochs(one)
    first = directions.clone().float()
    assert torch.allclose(first.norm(dim=1), torch.ones(20), atol=0.01), "to the digits of bfloat16"
    run_epochs(one)
    assert not torch.equal(directions.float(), first)


def test_the_attack_goes_on_from_the_directions_of_its_rows() -> None:
    """A second epoch of one batch, by hand."""
    one = session(batch_size=20)
    run_epochs(one)
    before, net = one.of_inputs.kept["directions"].float(), copy.deepcopy(one.model)
    order = torch.randperm(20, generator=generator(0, "train", "order", 1))
    x, y = one.data.batch(order)
    deltas = additive_noise(NOISE, x, 2, generator(0, "train", "noise/1/0", 0), None)
    _, gradient = soft_gradient(net, (x + 0.1 * before[order]).clamp(0, 1), y, deltas, 2)
    run_epochs(one)
    wanted = unit_direction(0.9 * before[order] + unit_direction(gradient, x), x)
    torch.testing.assert_close(one.of_inputs.kept["directions"][order].float(), wanted, rtol=0, atol=0.01)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_gives_the_directions_of_its_own_chunks(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 inputs by chunks of 3: the last one joins the second chunk, which is of the second process."""
    one, given = session(size=7, batch_size=7, chunk=3), list[Tensor]()
    one.group = Group(rank, 2)
    monkeypatch.setattr(Group, "add_up", lambda _, tensors: given.append(tensors[-1].clone()))
    one._step(torch.arange(7))
    own = torch.arange(7) < 3 if rank == 0 else torch.arange(7) >= 3
    assert torch.equal(given[0].any(dim=1), own)


@pytest.mark.slow
def test_killed_or_shared_directions_end_the_same(start: Start, tmp_path: Path) -> None:
    """Killed within the second epoch, by one process; and by two, which share the chunks of a batch."""

    def begin(name: str, kill: tuple[str, int] | None = None, rank: int | None = None) -> BaseProcess:
        group = None if rank is None else (rank, 2, tmp_path / "meet")
        state, model = tmp_path / f"{name}.safetensors", tmp_path / f"{name}-model.safetensors"
        return start(STATE=state, MODEL=model, KILL=kill, GROUP=group, CARRIED=True)

    first = [begin("whole"), begin("cut", ("step", 140)), begin("pair", rank=0), begin("pair", rank=1)]
    first[1].join()
    assert first[1].exitcode != 0
    for process in (first[0], first[2], first[3], begin("cut")):
        process.join()
        assert process.exitcode == 0
    one, resumed, two = (load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "cut", "pair"))
    assert all(torch.equal(resumed[name], one[name]) for name in one), "bit for bit, directions too"
    # Sums over processes are rounded otherwise: directions are the same up to that, but for few.
    alike = torch.cosine_similarity(two["directions"].float().flatten(1), one["directions"].float().flatten(1))
    assert float(alike.median()) > 0.999


def test_what_cannot_be_carried_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="needs images that stay as they are: leave out crop"):
        session(augment=Augment(crop=1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="this data set gives other ones every time"):
        Session(nn.Linear(3, 2), Restless(), OBJECTIVES[0], Settings(3), None, None)
    monkeypatch.setattr(of_inputs, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="keeps a direction of each of 20 inputs"):
        session()
