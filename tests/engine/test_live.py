"""Questions that come while the engine works: the library's own answers, fairly, and nobody harms another."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.engine.live import TURN, LiveEngine, Question
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian
from smoothcert.procedures import Budgeted, Certificate, Fixed, Procedure, Sequential, Staged

SHAPE = (1, 8, 8)
Outcomes = dict[int, Any]


def smoothed(seed: int = 0, **options: Any) -> Smoothed:
    return Smoothed(build(Architecture("lenet", 10, SHAPE), seed=0), 10, Gaussian(0.25, grid=1 / 255), seed, **options)


def inputs(count: int) -> Tensor:
    return torch.randint(0, 256, (count, *SHAPE), generator=torch.Generator().manual_seed(1)) / 255


def asked(g: Smoothed, x: Tensor, procedure: Procedure, **options: Any) -> Question:
    return Question(x, g.noise.for_inputs(x[None]).at(x), procedure, seed=g.seed, **options)


@pytest.mark.parametrize(
    "procedure",
    [
        Fixed(n=2 * TURN + 77),
        Sequential(radius=(0.1, 0.2), n=5_000),
        Staged(radius=0.1, stages=(100, 3_000)),
        Budgeted(most=3_000),
    ],
    ids=lambda p: p.name,
)
def test_answers_are_those_of_the_library(procedure: Procedure) -> None:
    secret = 3**200  # a seed may be as large as one likes
    batch_size = 50 if procedure.name == "fixed" else None
    g, x, found = smoothed(secret, batch_size=batch_size), inputs(3), Outcomes()
    engine = LiveEngine(g, x[:1])
    for row in range(len(x)):
        engine.add(
            asked(g, x[row], procedure, client=str(row % 2), on_end=lambda out, row=row: found.update({row: out}))
        )
    engine.close()
    assert [found[row] for row in range(len(x))] == g.certify(x, procedure)


class Breaks(torch.nn.Module):
    """Not finite near the input of zeros."""

    def forward(self, x: Tensor) -> Tensor:
        scores = x.flatten(1)[:, :3].clone()
        scores[x.flatten(1).mean(dim=1) < 0.2] = torch.nan
        return scores


def test_an_input_that_breaks_the_model_harms_nobody_else() -> None:
    g, procedure, found = Smoothed(Breaks(), 3, Gaussian(0.05)), Fixed(n=3_000), Outcomes()
    x = 0.5 + 0.4 * torch.rand(4, 12, generator=torch.Generator().manual_seed(0))
    x[2] = 0
    engine = LiveEngine(g, x[:1])
    for row in range(4):
        engine.add(asked(g, x[row], procedure, on_end=lambda out, row=row: found.update({row: out})))
    engine.close()
    assert isinstance(found[2], InputError)
    assert "finite" in str(found[2])
    assert [found[row] for row in (0, 1, 3)] == g.certify(x[[0, 1, 3]], procedure)


def _in_order(*questions: Callable[[Callable[[str], None]], Question]) -> list[str]:
    order: list[str] = []
    g = smoothed(workers=1)
    engine = LiveEngine(g, inputs(1))
    hold, held = threading.Event(), threading.Event()

    def holding(_: object) -> None:
        held.set()
        hold.wait(30)

    engine.add(asked(g, inputs(9)[8], Fixed(n=100), on_end=holding))
    assert held.wait(30)  # the engine waits here until all others stand in line
    for question in questions:
        engine.add(question(order.append))
    hold.set()
    engine.close()
    return order


def test_clients_take_turns() -> None:
    """Who asks for much, and often, keeps nobody else waiting for long."""
    g, x = smoothed(), inputs(6)

    def one(row: int, client: str, n: int) -> Callable[[Callable[[str], None]], Question]:
        return lambda note: asked(g, x[row], Fixed(n=n), client=client, on_end=lambda _: note(f"{client}{row}"))

    order = _in_order(*(one(row, "many", 2 * TURN) for row in range(3)), one(5, "few", 200))
    assert order[0] == "few5"
    assert sorted(order[1:]) == [f"many{row}" for row in range(3)]


def test_who_is_given_up_gets_no_further_turn() -> None:
    g, x, found = smoothed(workers=1), inputs(1), list[Any]()
    drawn: list[int] = []
    engine = LiveEngine(g, x)

    def watch(votes: dict[str, Any]) -> None:
        drawn.append(sum(tally.draws for tally in votes.values()))
        question.give_up()

    question = asked(g, x[0], Fixed(n=1_000_000), on_end=found.append, on_votes=watch)
    engine.add(question)
    engine.close()
    assert found == [None]
    assert max(drawn) < 3 * TURN


def test_a_procedure_that_cannot_work_is_an_error_of_its_own() -> None:
    g, x, found = smoothed(), inputs(2), Outcomes()
    engine = LiveEngine(g, x[:1])
    engine.add(asked(g, x[0], Sequential(radius=50.0), on_end=lambda out: found.update({0: out})))
    engine.add(asked(g, x[1], Fixed(n=500), on_end=lambda out: found.update({1: out})))
    engine.close()
    assert "can never be shown" in str(found[0])
    assert isinstance(found[1], Certificate)
    with pytest.raises(InputError, match="closed"):
        engine.add(asked(g, x[0], Fixed(n=500), on_end=lambda _: None))


def test_batches_are_shared_and_their_fill_is_heard() -> None:
    g, x, fills = smoothed(workers=1), inputs(8), list[tuple[int, int]]()
    engine = LiveEngine(g, x[:1], on_batch=lambda rows, room: fills.append((rows, room)))
    for one in x:
        engine.add(asked(g, one, Fixed(n=1_280, n0=128), on_end=lambda _: None))
    engine.close()
    assert sum(rows for rows, _ in fills) == 8 * (1_280 + 128)
    assert all(rows <= room for rows, room in fills)
