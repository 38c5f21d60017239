"""The distribution of p_A against a direct computation."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from smoothcert.analysis import Results
from smoothcert.analysis.hardness import lower_bounds, share_below
from smoothcert.core.errors import InputError
from smoothcert.present.figures import FIGURES
from smoothcert.procedures import Scope
from smoothcert.runs import Record, Run

VOTES = [100, 95, 80, 30, 99, 55]


def records(path: Path) -> list[Record]:
    return list(Run.open(path).records())


def test_it_is_the_clopper_pearson_bound_and_0_where_wrong(make_run: Callable[..., Path]) -> None:
    found = records(make_run("run", range(6), VOTES))
    found[4] = dataclasses.replace(found[4], label=0)  # sure, and wrong
    direct = [float(stats.beta.ppf(0.001, k, 101 - k)) for k in VOTES]  # k of 100 at alpha = 0.001
    wanted = [p if p > 0.5 and i != 4 else 0.0 for i, p in enumerate(direct)]
    assert list(lower_bounds(found)) == pytest.approx(sorted(wanted), abs=1e-12)
    levels = (0.5, 0.75, 0.9, 0.99)
    assert [share.count for share in share_below(found, levels)] == [sum(p < q for p in wanted) for q in levels]
    assert share_below(found)[0].count == sum(record.abstained or not record.correct for record in found)


def test_the_figure_draws_the_empirical_distribution(make_run: Callable[..., Path]) -> None:
    found = records(make_run("run", range(6), VOTES))
    figure = FIGURES.find("certainty")([Results("a", tuple(found))])
    x, y = figure.axes[0].lines[0].get_data()
    bounds = lower_bounds(found)
    for at in (0.2, 0.6, 0.8, 0.9, 0.97):
        drawn = y[np.flatnonzero(np.asarray(x) <= at)[-1]]
        assert drawn == pytest.approx(100 * float((bounds <= at).mean()))


def test_what_keeps_no_bound_is_refused(make_run: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="needs runs of fixed or budgeted"):
        lower_bounds([Record(0, 1, 1, 0.5)])
    assert len(lower_bounds(records(make_run("m", range(2), [100, 90], scope=Scope.MEMORY)))) == 2
