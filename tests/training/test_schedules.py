import json
import math

import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.training import SCHEDULES, Constant, Cosine, OneCycle, Schedule, Step


@pytest.mark.parametrize(
    ("schedule", "epochs", "values"),
    [
        (Constant(), 5, {0: 1, 4.9: 1}),
        (Step(every=50), 150, {0: 1, 49.99: 1, 50: 0.1, 99.5: 0.1, 100: 0.01}),
        (Step(milestones=(60, 120)), 150, {59.99: 1, 60: 0.1, 119: 0.1, 120: 0.01, 149: 0.01}),
        (Step(milestones=(2,), drop=0.5), 4, {1: 1, 3: 0.5}),
        (Cosine(), 8, {0: 1, 2: (1 + math.sqrt(0.5)) / 2, 4: 0.5, 6: (1 - math.sqrt(0.5)) / 2}),
        (OneCycle(), 10, {0: 0.04, 1.5: 0.52, 3: 1, 6.5: (1 + 4e-6) / 2}),
        (OneCycle(rise=0.5, start=0.2), 2, {0: 0.2, 0.5: 0.6, 1: 1, 1.5: 0.50001}),
    ],
    ids=lambda value: value.name if isinstance(value, Schedule) else "",
)
def test_hand_values(schedule: Schedule, epochs: int, values: dict[float, float]) -> None:
    for epoch, factor in values.items():
        assert schedule.factor(epoch, epochs) == pytest.approx(factor, rel=1e-12)


def test_one_cycle_is_the_one_of_torch_at_its_corners() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    torch_schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=100, cycle_momentum=False)
    first = optimizer.param_groups[0]["lr"]
    rates = [first]
    for _ in range(99):
        optimizer.step()
        torch_schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    ours = [OneCycle().factor(step, 100) for step in range(100)]
    assert ours[0] == pytest.approx(first)
    # torch's steps end one earlier: at most one step of the steepest slope, pi/2 / 29, apart.
    assert max(abs(a - b) for a, b in zip(ours, rates, strict=True)) < math.pi / 2 / 29


def test_what_is_no_schedule() -> None:
    for wrong in (
        {},
        {"every": 3, "milestones": (4,)},
        {"every": -1},
        {"every": 0},
        {"every": 2.5},
        {"milestones": (0, 5)},
    ):
        with pytest.raises(InputError, match="step schedule"):
            Step(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rise and start"):
        OneCycle(rise=1.0)


def test_every_schedule_is_listed_and_described() -> None:
    assert set(SCHEDULES) == {"constant", "step", "cosine", "one-cycle"}
    assert Step(milestones=(2, 3)).describe() == {"name": "step", "every": None, "milestones": [2, 3], "drop": 0.1}
    for schedule in (Constant(), Step(every=3), Step(milestones=(2, 3)), Cosine(), OneCycle(rise=0.2)):
        assert Schedule.from_description(json.loads(json.dumps(schedule.describe()))) == schedule
