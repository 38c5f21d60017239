"""Hard inputs are left out of training: which ones, from when on, and the same however training is run."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training import DS2, Discard, Group, Session, Settings, train
from smoothcert.training.objectives import Consistency, Denoising, Gaussian
from smoothcert.training.recipes import RECIPES, find
from smoothcert.training.recipes.build import change
from smoothcert.workflows.train import _refuse_nothing_to_tune

NOISE = GaussianNoise(0.1)
FAR, CLOSE, WRONG = 0.5, 0.02, -0.5  # distances from the border of `sure`; the label of what is wrong is the other one


class Sure(nn.Module):
    """Answers class 1 where the first number is above 1/2; of parameters it has one that decides nothing at first."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        margin = x[:, 0] - 0.5 + self.shift
        return torch.stack([-margin, margin], dim=1)


def data() -> tuple[Tensor, Tensor]:
    """Ten inputs that are far on the right side, ten that are close to the border, ten on the wrong side."""
    x = torch.full((30, 2), 0.5)
    x[:, 0] += torch.tensor([FAR] * 10 + [CLOSE] * 10 + [WRONG] * 10)
    return x, torch.ones(30, dtype=torch.long)


def session(discard: Discard | None, *, epochs: int = 3, **options: Any) -> Session:
    settings = Settings(epochs, lr=1e-6, batch_size=8, discard=discard, **options)
    return Session(Sure(), data(), Gaussian(NOISE), settings, None, None)


def rows_of(one: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inputs that the next epoch is about."""
    seen = list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(one, "_step", lambda rows: seen.extend(rows.tolist()))
        one.run_epoch(1e9, lambda _done, _total: None)
    return sorted(seen)


def test_the_share_of_answers_is_that_of_the_normal_law() -> None:
    """Phi(.02 / .1) = 0.579 of the copies of what is close are right: of 20 000, +- 0.014 at four deviations."""
    x, y = data()
    stream = torch.Generator().manual_seed(0)
    share = Discard(draws=2000).answers(Gaussian(NOISE), Sure(), x, y, stream)
    assert share[:10].min() == 1
    assert share[20:].max() == 0
    assert abs(float(share[10:20].mean()) - 0.5793) < 0.014


def test_hard_inputs_are_left_out_from_the_epoch_on_and_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = session(Discard(start=1, below=0.2, draws=64))
    assert rows_of(one, monkeypatch) == list(range(30))
    assert one.steps == 4
    assert rows_of(one, monkeypatch) == list(range(20))
    assert one.steps == 3
    with torch.no_grad():
        one.model.shift.fill_(-10)  # now it would get all of them wrong
    assert rows_of(one, monkeypatch) == list(range(20))
    assert rows_of(session(Discard(start=0, below=0.9, draws=64)), monkeypatch) == list(range(10))
    assert rows_of(session(None), monkeypatch) == list(range(30))


def test_the_loss_of_an_epoch_is_the_mean_over_what_is_left() -> None:
    """All that are far have the same loss, but for noise: log(1 + exp(-2 * .5)) = 0.313."""
    one = session(Discard(start=0, below=0.9, draws=64), epochs=1)
    epoch = one.run_epoch(1e9, lambda _done, _total: None)
    assert epoch.loss == pytest.approx(0.3133, abs=0.05)


def test_progress_ends_at_the_last_step() -> None:
    told = list[tuple[int, int]]()
    train(
        Sure(), data(), Gaussian(NOISE), epochs=2, batch_size=8, lr=1e-6, discard=Discard(start=1, below=0.9, draws=64),
        on_epoch=lambda _epoch: None, on_step=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told[4:12].count((4, 8)) == 8, "and is told while inputs are judged, in 8 parts"
    shares = [done / total for done, total in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_share_the_judging(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By parts of 4 rows (256 copies of 64 draws): this process knows every second part, the others are zeros."""
    whole = session(Discard(start=0, draws=64))
    whole.of_inputs.left(0, Group(0, 1), whole._answers, lambda: None)
    one, given = session(Discard(start=0, draws=64)), list[Tensor]()
    monkeypatch.setattr(Group, "add_up", lambda _, tensors: given.extend(one.clone() for one in tensors))
    one.of_inputs.left(0, Group(rank, 2), one._answers, lambda: None)
    mine = torch.arange(30) // 4 % 2 == rank
    assert torch.equal(given[0], torch.where(mine, whole.of_inputs.kept["answers"], 0.0))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Discard(start=-1), "start and draws of discard must be whole numbers"),
        (lambda: Discard(draws=0), "start and draws of discard must be whole numbers"),
        (lambda: Discard(below=0), r"below of discard must lie in \(0, 1\], as 0.5 does, got 0"),
        (lambda: Discard(below=float("nan")), "below of discard must lie"),
        (lambda: Settings(3, ds2=Discard()), r"ds2 must be a DS2 of smoothcert.training, as DS2\(start=10\)"),
        (
            lambda: Settings(3, discard=0.5),
            r"discard must be a Discard of smoothcert.training, as Discard\(start=10\), got 0.5",
        ),
        (lambda: Settings(3, discard=Discard(start=3)), "discard would start after 3 epochs, and there are 3; lower"),
    ],
)
def test_what_cannot_be_is_one_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_an_untrained_model_that_gets_everything_wrong_is_refused() -> None:
    one = session(Discard(start=0))
    with torch.no_grad():
        one.model.shift.fill_(-10)
    with pytest.raises(InputError, match=r"would leave no input: after 0 epochs .* go on with a trained model"):
        one.run_epoch(1e9, lambda _done, _total: None)


@pytest.mark.parametrize("more", [{}, {"ema": 0.9}, {"ds2": DS2(start=1, lr=0.01)}], ids=["", "ema", "ds2"])
def test_a_training_that_was_stopped_anywhere_ends_the_same(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at each call of `on_step`: within epochs, before the judging, in it and after it."""
    monkeypatch.setattr("smoothcert.training.session.LOOK_SECONDS", 1e-9)  # a state after every step

    def training(state: Path | None, stop: int | None) -> tuple[nn.Module, list[Any], int]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
        calls, history = 0, list[Any]()

        def on_step(_done: int, _total: int) -> None:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt

        x, _ = data()
        with suppress(KeyboardInterrupt):
            history = train(
                net, (x, (x[:, 0] > 0.4).long()), Consistency(NOISE), epochs=3, batch_size=8, chunk=4, state=state,
                discard=Discard(start=1, below=0.6, draws=64), on_epoch=lambda _epoch: None, on_step=on_step,
                save_every=0.0, **more,
            )  # fmt: skip
        return net, [(epoch.loss, epoch.terms) for epoch in history], calls

    whole, history, calls = training(None, None)
    assert len(history) == 3
    for stop in range(1, calls):
        state = tmp_path / f"{stop}.safetensors"
        training(state, stop)
        again, found, _ = training(state, None)
        assert found == history, f"stopped at call {stop}"
        for name, value in again.state_dict().items():
            assert torch.equal(value, whole.state_dict()[name]), f"stopped at call {stop}"


def test_a_denoiser_is_refused_at_the_door() -> None:
    settings = Settings(2, batch_size=8, discard=Discard(start=1))
    with pytest.raises(InputError, match="denoising without a classifier answers none; leave discard out"):
        Session(nn.Sequential(nn.Linear(2, 2)), data(), Denoising(NOISE), settings, None, None)


def test_every_recipe_goes_on_with_one_that_there_is() -> None:
    for recipe in RECIPES.values():
        assert recipe.tunes is None or recipe.tunes in RECIPES, recipe.name
    with pytest.raises(InputError) as refusal:
        _refuse_nothing_to_tune(find("cifar10-resnet110-consistency-easy-0.50"), None)
    assert str(refusal.value).endswith("such as one of cifar10-resnet110-consistency-0.50")


def test_the_recipe_goes_on_with_a_trained_model_and_can_be_changed(tmp_path: Path) -> None:
    recipe = find("cifar10-resnet20-consistency-easy-0.50")
    assert recipe.tunes == "cifar10-resnet20-consistency-0.50"
    fast = find("cifar10-resnet20-consistency-easy-0.50-fast")
    assert fast.tunes == "cifar10-resnet20-consistency-0.50-fast"
    assert (fast.epochs, fast.lr, fast.discard) == (recipe.epochs, recipe.lr, recipe.discard)
    assert recipe.discard == {"start": 0, "below": 0.5, "draws": 8}
    other = change(recipe, ["discard.below=0.3", "discard.start=2"])
    assert other.discard == {"start": 2, "below": 0.3, "draws": 8}
    assert sc.recipes.Recipe.from_json(other.to_json()) == other
    with pytest.raises(InputError, match=r"has no key .discard\.below."):
        change(find("cifar10-resnet20-consistency-0.50"), ["discard.below=0.3"])
