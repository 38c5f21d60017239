"""Scatter, sizes, sigma and draws: what is on the axes, and that the files are what their names say."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from smoothcert.analysis import Results, Settings, average_certified_radius, oracle
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.present import (
    acr_by_members,
    acr_by_size,
    draws_by_votes,
    draws_saved,
    radius_accuracy,
    radius_scatter,
    sigma_histogram,
)
from smoothcert.present.figures import (
    FIGURES,
    acr_by_size_figure,
    draw,
    draws_by_votes_figure,
    draws_saved_figure,
    radius_accuracy_figure,
    radius_scatter_figure,
    sigma_histogram_figure,
)
from smoothcert.present.figures.curves import steps
from smoothcert.procedures import Ask, Fixed, Procedure, Staged, converse
from smoothcert.runs import ModelConfig, Record
from smoothcert.stats import Tally
from smoothcert.stats.rounding import down

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def of_radii(*radii: float, name: str = "a") -> Results:
    """Negative: a wrong answer."""
    return Results(name, tuple(Record(i, 1, 1 if r >= 0 else 2, abs(r)) for i, r in enumerate(radii)))


def simulated(name: str, procedure: Procedure, shares: list[float], sigmas: list[float] | None = None) -> Results:
    records = []
    for i, share in enumerate(shares):
        noise = Gaussian(0.25 if sigmas is None else sigmas[i])

        def draw(ask: Ask, share: float = share) -> Tally:
            return Tally((round(ask.n * share), ask.n - round(ask.n * share)))

        certificate = dataclasses.replace(converse(procedure.certify(noise), draw), noise=noise.describe())
        records.append(Record.of(i, 0, certificate, 0.1))
    return Results(name, tuple(records), settings=Settings(fixed_draws=procedure.fixed_draws(), norm="l2"))


FIXED = simulated("fixed", Fixed(n=1000), [1.0, 0.9, 0.8, 0.4])
STAGED = simulated("staged", Staged(radius=0.25, stages=(100, 1_000, 120_000)), [1.0, 1.0, 0.4, 0.9])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_every_figure_is_written_in_every_format(tmp_path: Path, suffix: str) -> None:
    a, b = of_radii(0.1, 0.5, -0.5), of_radii(0.2, 0.4, 0.1, name="b")
    written = [
        radius_accuracy([a, b], tmp_path / f"curves{suffix}", envelope=True),
        radius_scatter(a, b, tmp_path / f"scatter{suffix}"),
        acr_by_size([(1, a), (3, b)], tmp_path / f"sizes{suffix}"),
        sigma_histogram([FIXED], tmp_path / f"sigma{suffix}"),
        draws_by_votes([FIXED, STAGED], tmp_path / f"draws{suffix}"),
        draws_saved([FIXED, STAGED], tmp_path / f"saved{suffix}"),
    ]
    assert all(path.read_bytes().startswith(MAGIC[suffix]) for path in written)


def test_figures_are_drawn_by_name(tmp_path: Path) -> None:
    assert set(FIGURES) == {"certainty", "curves", "sigma", "draws", "saved", "members"}
    for kind, drawn in {"curves": radius_accuracy, "sigma": sigma_histogram, "draws": draws_by_votes}.items():
        path = draw(kind, [FIXED], tmp_path / f"{kind}.svg")
        assert path.read_bytes() == drawn([FIXED], tmp_path / "same.svg").read_bytes()
    with pytest.raises(InputError, match="there is no figure 'pie': the names are certainty, curves, draws"):
        draw("pie", [FIXED], tmp_path / "pie.svg")
    with pytest.raises(InputError, match="must end in"):
        draw("curves", [FIXED], tmp_path / "curves.txt")


def test_the_envelope_is_the_highest_curve_and_the_oracle_is_called_so() -> None:
    a, b = of_radii(0.1, 0.5, -0.5, 0.0), of_radii(0.2, 0.4, 0.1, 0.0, name="b")
    (axes,) = radius_accuracy_figure([a, b], envelope=True, oracle=True).axes
    assert len(axes.lines) == 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "ACR 0.1500   a",
        "ACR 0.1750   b",
        "largest ACR 0.1750   upper envelope (UE)",
        "ACR 0.2000   oracle (best of each input)",
    ]
    x, y = axes.lines[2].get_data()
    # at 0: 3 of 4 and 4 of 4; at .1: 2, 3; .2: 1, 2; .4: 1, 1; .5: 1, 0: and nothing beyond
    assert list(zip(x, y, strict=True)) == [(0, 100), (0.1, 75), (0.2, 50), (0.4, 25), (0.5, 25), (0.5, 0)]
    x, y = axes.lines[3].get_data()
    radii, (value, _, _) = steps(oracle([a, b]))
    assert (list(x), list(y)) == (radii.tolist(), value.tolist())
    assert len(radius_accuracy_figure([a, b]).axes[0].lines) == 2


def test_a_curve_of_decided_radii_ends_with_a_mark_and_not_at_0() -> None:
    radii, (value, _, high) = steps(STAGED)
    assert radii[-1] == 0.25, "the largest radius that was asked about"
    assert value[-1] > 0
    assert high[-1] > 0
    (axes,) = radius_accuracy_figure([FIXED, STAGED]).axes
    curves, marks = [line for line in axes.lines if len(line.get_xdata()) > 1], axes.lines[2:]
    assert [curve.get_ydata()[-1] for curve in curves] == [0.0, value[-1]]
    assert [(mark.get_xdata().tolist(), mark.get_ydata().tolist()) for mark in marks] == [([0.25], [value[-1]])]
    assert axes.get_legend().get_texts()[1].get_text().endswith("(asked up to 0.25)")


@pytest.mark.parametrize("suffix", MAGIC)
def test_a_figure_appears_whole_or_not_at_all(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / f"a{suffix}"
    target.write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        radius_accuracy([FIXED], target)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(target.name, "old")]


def test_the_scatter_has_a_point_per_input_on_its_side_of_the_line() -> None:
    a, b = of_radii(0.5, 0.2, 0.3, -1.0, -1.0), of_radii(0.4, 0.6, 0.3, 0.1, -2.0, name="b")
    (axes,) = radius_scatter_figure(a, b).axes
    points = {c.get_label(): c.get_offsets().tolist() for c in axes.collections}
    assert points == {
        "1 input: a larger": [[0.5, 0.4]],
        "2 inputs: b larger": [[0.2, 0.6], [0.0, 0.1]],
        "1 input: equal": [[0.3, 0.3]],
        "1 input: both 0": [[0.0, 0.0]],
    }
    assert axes.get_xlabel() == "Certified radius of a"
    assert axes.get_ylabel() == "Certified radius of b"
    assert axes.get_xlim() == axes.get_ylim()


def test_the_scatter_takes_the_shared_inputs_only() -> None:
    a, b = of_radii(0.5, 0.2, 0.3), of_radii(0.4, name="b")
    (axes,) = radius_scatter_figure(a, b).axes
    assert sum(len(c.get_offsets()) for c in axes.collections) == 1


def test_sizes_are_drawn_in_order_with_intervals() -> None:
    results = {k: of_radii(*np.linspace(0, k, 20)) for k in (3, 1, 2)}
    (axes,) = acr_by_size_figure(list(results.items())).axes
    line = axes.lines[-1]
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == [average_certified_radius(results[k].records) for k in (1, 2, 3)]
    assert len(axes.containers) == 3, "a point with its interval each"
    assert axes.get_xlabel() == "Members of the ensemble"
    assert axes.get_ylabel() == "Average certified radius"


def test_runs_say_how_many_members_they_have(tmp_path: Path) -> None:
    def of(model: ModelConfig | None, name: str) -> Results:
        return dataclasses.replace(of_radii(0.2, name=name), settings=Settings(model=model))

    three = {"aggregation": "soft-voting", "members": 3}
    assert acr_by_members(
        [of(ModelConfig(), "one"), of(ModelConfig(ensemble=three), "three")], tmp_path / "a.png"
    ).exists()
    nobody = ModelConfig(ensemble={})
    for model, words in ((None, "log does not say which model"), (nobody, "log does not say how many")):
        with pytest.raises(InputError, match=words):
            acr_by_members([of(model, "log")], tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()


def test_equal_sizes_are_joined_at_their_mean() -> None:
    (axes,) = acr_by_size_figure([(1, of_radii(0.2)), (1, of_radii(0.4))]).axes
    assert list(axes.lines[-1].get_ydata()) == pytest.approx([0.3])


def test_the_histogram_counts_every_input() -> None:
    sigmas = [0.25, 0.25, 0.5, 1.0]
    own = simulated("own", Fixed(n=100), [1.0] * 4, sigmas)
    (axes,) = sigma_histogram_figure([own]).axes
    counts, edges, _ = axes.patches[-1].get_data()
    assert counts.sum() == 4
    assert [int(counts[np.searchsorted(edges, s) - 1]) for s in (0.25, 0.5, 1.0)] == [2, 1, 1]
    assert axes.get_xlabel() == r"Noise of the input ($\sigma$)"
    assert "median 0.375" in axes.get_legend().get_texts()[0].get_text()


def test_draws_over_votes_by_hand() -> None:
    (axes,) = draws_by_votes_figure([STAGED]).axes
    # certified in stage 1 twice, given up by the choice of the class (64 draws), certified in 2 after a choice by 32
    assert axes.collections[0].get_offsets().tolist() == [[1.0, 116], [1.0, 116], [39 / 64, 64], [0.9, 1132]]
    (line,) = axes.lines
    assert line.get_xdata()[0] == Gaussian(0.25).required_p(0.25), "where the radius is won or lost"
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "Draws per input"
    assert "mean 357 draws" in axes.get_legend().get_texts()[1].get_text()
    assert not draws_by_votes_figure([FIXED]).axes[0].lines, "no radius was given"


def test_draws_saved_by_hand() -> None:
    (axes,) = draws_saved_figure([STAGED]).axes
    fixed, curve = axes.lines
    assert fixed.get_xdata()[0] == STAGED.settings.fixed_draws
    assert list(curve.get_xdata())[:-1] == [64, 64, 116, 116, 1132]
    assert list(curve.get_ydata()) == [0, 25, 50, 75, 100, 100]
    factor = (STAGED.settings.fixed_draws or 0) / 357
    assert f"SampleRF {down(factor, 1)} " in axes.get_legend().get_texts()[1].get_text()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    log = of_radii(0.5, name="log")
    for drawing in (sigma_histogram, draws_by_votes, draws_saved):
        with pytest.raises(InputError, match=r"^log .*give a run made by certify$"):
            drawing([log], tmp_path / "a.png")
        with pytest.raises(InputError, match="at least one run"):
            drawing([], tmp_path / "a.png")
        with pytest.raises(InputError, match=r"must end in \.png"):
            drawing([FIXED], tmp_path / "a.gif")
    with pytest.raises(InputError, match="positive whole number, got 0"):
        acr_by_size([(0, log)], tmp_path / "a.png")
    with pytest.raises(InputError, match="share no input"):
        radius_scatter(log, Results("b", (Record(7, 1, 1, 0.5),)), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
