import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.procedures import ABSTAIN, Ask, Staged, converse
from smoothcert.stats import Tally

# Horvath et al. 2022, figure 4: sigma = r = 0.25, alpha = 0.001, beta = 0.0001.
FIGURE_4 = Staged(radius=0.25, stages=(1_000, 10_000, 125_000), alpha=0.001, beta=0.0001, n0=100)


def run(procedure: Staged, votes: dict[int, int]) -> tuple[object, list[Ask]]:
    """Answer each stage with the given votes for class 0."""
    asked: list[Ask] = []

    def draw(ask: Ask) -> Tally:
        asked.append(ask)
        return Tally((votes.get(ask.n, ask.n), ask.n - votes.get(ask.n, ask.n)))

    return converse(procedure.certify(Gaussian(0.25)), draw), asked


def stage(votes: dict[int, int]) -> tuple[int, bool]:
    certificate, _ = run(FIGURE_4, votes)
    (decision,) = certificate.decisions  # type: ignore[attr-defined]
    return decision.step, decision.certified


def test_the_five_counts_of_figure_4() -> None:
    undecided = {1_000: 840, 10_000: 8_400}
    assert stage({1_000: 880}) == (1, True)
    assert stage({1_000: 879, 10_000: 8_538}) == (2, True)
    assert stage({1_000: 879, 10_000: 8_537, 125_000: 105_607}) == (3, True)
    assert stage({**undecided, 125_000: 105_606}) == (3, False)
    assert stage({1_000: 794}) == (1, False)
    assert stage({1_000: 795, 10_000: 8_269}) == (2, False)
    assert stage({1_000: 795, 10_000: 8_270, 125_000: 105_607}) == (3, True)


def test_theorem_6_1() -> None:
    matched = Staged.matching(radius=0.25, n=100_000, stages=4)
    assert matched.stages == (100, 1_000, 10_000, 120_069)
    assert matched.fixed_draws() == 100_100


def test_stages_are_fresh_and_the_class_is_chosen_once() -> None:
    certificate, asked = run(FIGURE_4, {1_000: 840, 10_000: 8_400, 125_000: 100_000})
    assert [(a.purpose, a.n) for a in asked] == [
        ("choose", 16), ("stage-1", 1_000), ("stage-2", 10_000), ("stage-3", 125_000)
    ]  # fmt: skip
    assert (certificate.label, certificate.radius) == (ABSTAIN, 0.0)  # type: ignore[attr-defined]
    assert certificate.draws == 16 + 136_000  # type: ignore[attr-defined]
    assert "radius 0.25 is not shown in stage 3 of 3" in certificate.reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"stages": (100, 100)}, "stages must grow"), ({"stages": ()}, "stages must grow"),
     ({"stages": (0, 10)}, "stages must be"), ({"radius": 0.0}, "radius must be positive"),
     ({"radius": float("nan")}, "radius must be positive"),
     ({"beta": 0.0}, "beta must lie"), ({"alpha": 1.0}, "alpha must lie")],
)  # fmt: skip
def test_refusals(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Staged(**{"radius": 0.25, **change})  # type: ignore[arg-type]


def test_a_radius_out_of_reach_is_refused() -> None:
    with pytest.raises(InputError, match=r"radius 1.5 can never be shown: all draws agreeing give l2 radius 0.9528"):
        run(Staged.matching(radius=1.5), {})
