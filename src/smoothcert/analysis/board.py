"""Every published method whose log is public, image by image, to put runs beside.

The answers and radii are the authors' own (`published.npz`, made by `benchmarks/pack_board.py`): MNIST and CIFAR-10,
all 10 000 test images, n = 100 000, alpha = .001, one training each, radii rounded to three digits. They are compared
with a run on the images that it has, paired; whether these are the same images is told by their labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.comparison import Comparison, compare
from smoothcert.analysis.logs import ROUNDED
from smoothcert.analysis.results import Results
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special
from smoothcert.noise import Gaussian
from smoothcert.procedures import ABSTAIN
from smoothcert.runs import Record
from smoothcert.stats.binomial import lower_bound

FILE = Path(__file__).with_name("published.npz")
PUBLISHED_DRAWS = 100_000
"""Per image, of all of them."""
PUBLISHED_ALPHA = 0.001
FEWEST = 20
"""Images whose labels must agree with those of a data set: fewer might do so by chance."""
OF_PACKAGED = {"mnist500": 20}
"""Packaged data sets that are every so many-th image of a test set."""

OTHER_IMAGES = ("mnist-binary",)
"""Data sets that have the labels of a test set, in its order, and other images."""

OF_ALL = f"{PUBLISHED_DRAWS:,} draws per image"
RECOUNTED = "radii are those of {draws:,} of the 100,000 votes, inferred from the published radii, at alpha {alpha:g}"

_JEONG_SHIN = "Jeong & Shin 2020, Consistency regularization for certified robustness, public logs"
_SMOOTHMIX = "Jeong et al. 2021, SmoothMix, public logs (best setting of each sigma)"
_CATRS = "Jeong, Kim & Shin 2023, Confidence-aware training of smoothed classifiers (CAT-RS), public logs"
_SUN = "Sun et al., ICML 2025, public logs"


@dataclass(frozen=True)
class PublishedLog:
    """One method on one data set with one sigma, as its authors certified it."""

    data: str
    network: str
    method: str
    sigma: float

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{self.method}, {self.network}, sigma {self.sigma:g}"

    @property
    def source(self) -> str:
        """Who published it."""
        if self.method == "sun2025":
            return _SUN
        if self.network == "resnet110" or self.method == "catrs":
            return _CATRS
        return _SMOOTHMIX if self.method == "smoothmix" else _JEONG_SHIN

    def results(
        self, indices: Sequence[int] | None = None, *, draws: int | None = None, alpha: float = PUBLISHED_ALPHA
    ) -> Results:
        """Its records of these images of the test set; by default of all.

        With `draws`, as so many draws would have shown them at `alpha`: see `_of_fewer_draws`.
        """
        arrays, key = _arrays(), f"{self.data}/{self.network}/{self.method}/{self.sigma:.2f}"
        labels, radius, answer = arrays[f"labels/{self.data}"], arrays[f"radius/{key}"] / 1000, arrays[f"answer/{key}"]
        note = f"{OF_ALL}; {ROUNDED.format(digits=3)}"
        if draws is not None:
            note = RECOUNTED.format(draws=draws, alpha=alpha)
            radius = np.where(answer == ABSTAIN, 0.0, _of_fewer_draws(radius, self.sigma, draws, alpha))
            if (draws, alpha) != (PUBLISHED_DRAWS, PUBLISHED_ALPHA):  # else radii that were rounded to 0 are answers
                answer = np.where(radius > 0, answer, ABSTAIN)
        chosen = range(len(labels)) if indices is None else indices
        records = tuple(
            Record(
                index=index,
                label=int(labels[index]),
                prediction=int(answer[index]),
                radius=float(radius[index]),
            )
            for index in chosen
        )
        settings = Settings(source=self.source, log_sigma=self.sigma, norm="l2", alpha=alpha, note=note)
        return Results(self.name, records, len(records), settings)


@dataclass(frozen=True)
class Board:
    """Runs beside every published method on the same images."""

    data: str
    runs: tuple[Results, ...]
    logs: tuple[PublishedLog, ...]
    published: tuple[Results, ...]  # of `logs`, on the images of the first run
    against: tuple[Comparison, ...]  # the first run with each of `published`
    recounted: tuple[int, float] | None = None  # draws and alpha of `published`; None: as they were published

    @property
    def inputs(self) -> int:
        """Images that all rows are about."""
        return len(self.runs[0].records)


def published(data: str | None = None) -> list[PublishedLog]:
    """All logs that are known, or those of one data set."""
    keys = [name.removeprefix("radius/").split("/") for name in _arrays() if name.startswith("radius/")]
    logs = [PublishedLog(one, network, method, float(sigma)) for one, network, method, sigma in keys]
    return [log for log in logs if data in (None, log.data)]


def data_of(results: Results) -> str:
    """The data set that a run is about, told by its labels; refused if it is none of those with published logs."""
    names = [name.removeprefix("labels/") for name in _arrays() if name.startswith("labels/")]
    about = results.settings.data
    if about is not None and (about.name in OTHER_IMAGES or about.preprocessing):
        raise InputError(
            f"{results.name} is about other images than the published logs, though they have the same labels "
            f"({about.name}{', resized or cropped' if about.preprocessing else ''}); certify the official test images"
        )
    for name in names:
        labels = _arrays()[f"labels/{name}"]
        if len(results.records) >= FEWEST and all(
            record.index < len(labels) and labels[record.index] == record.label for record in results.records
        ):
            return name
    raise InputError(
        f"{results.name} is not about at least {FEWEST} test images of {' or '.join(names)} in their official order, "
        "which the published logs are about; certify --data mnist500, or mnist or cifar10 with --every"
    )


def board(
    runs: Sequence[Results],
    *,
    sigma: float | None = None,
    network: str | None = None,
    radii: Sequence[float] | None = None,
    same_draws: bool = False,
) -> Board:
    """Put runs on the same images beside the published methods; the first run is compared with each of them.

    Args:
        runs: of one data set; all rows are about the images of the first one.
        sigma: of the published logs. Default: all.
        network: of the published logs. Default: all.
        radii: of the comparison. Default: chosen.
        same_draws: bring the published logs down to the draws of the runs, which must all have the same fixed number,
            and to their alpha.
    """
    recounted = _draws_of_all(runs) if same_draws else None
    draws, alpha = recounted or (None, PUBLISHED_ALPHA)
    own = [_in_official_order(run) for run in runs]
    data = data_of(own[0])
    shared = set.intersection(*(run.indices for run in own))
    if not shared or any(data_of(run) != data for run in own[1:]):
        raise InputError("the runs have no images in common; give runs on the same images of one data set")
    own = [dataclasses.replace(run, records=tuple(r for r in run.records if r.index in shared)) for run in own]
    logs = [log for log in published(data) if sigma in (None, log.sigma) and network in (None, log.network)]
    if not logs:
        known = sorted({f"{log.network} at sigma {log.sigma:g}" for log in published(data)})
        raise InputError(f"no log of {data} with this sigma and network is published; there are {', '.join(known)}")
    rows = [log.results(sorted(shared), draws=draws, alpha=alpha) for log in logs]
    against = [compare(own[0], row, None if radii is None else list(radii)) for row in rows]
    return Board(data, tuple(own), tuple(logs), tuple(rows), tuple(against), recounted)


def bound_draws(run: Results) -> tuple[int, float] | None:
    """n and alpha of a run of `Fixed`, or of `Evaluate`: the draws that bound p_A, the same number of every image."""
    procedure = run.settings.procedure or {}
    n, alpha = procedure.get("n"), procedure.get("alpha")
    if procedure.get("name") not in ("fixed", "evaluate") or not isinstance(n, int) or not isinstance(alpha, float):
        return None
    return n, alpha


def _draws_of_all(runs: Sequence[Results]) -> tuple[int, float]:
    """n and alpha of all runs, which are the same, and n is no more than the logs have; refused otherwise."""
    found = []
    for run in runs:
        if run.settings.source is not None or run.settings.procedure is None:
            raise InputError(
                f"{run.name} is a public log, which does not say how many draws it took; leave out it or --same-draws"
            )
        if (own := bound_draws(run)) is None:
            raise InputError(
                f"{run.name} took other numbers of draws of other images, and --same-draws needs runs with the same "
                "number of all; certify with --procedure fixed, or leave out --same-draws"
            )
        found.append(own)
        if own != found[0] or own[0] > PUBLISHED_DRAWS:
            raise InputError(
                "--same-draws needs runs with the same alpha and the same number of draws, at most "
                f"{PUBLISHED_DRAWS:,}; {run.name} has {own[0]:,} at alpha {own[1]:g}"
            )
    return found[0]


def _of_fewer_draws(radius: npt.NDArray[np.float64], sigma: float, draws: int, alpha: float) -> npt.NDArray[np.float64]:
    """What `draws` of the 100 000 votes behind each radius show.

    A random part of independent votes is so many independent votes (see `reanalysis`). The votes are not published,
    but the count whose Clopper-Pearson bound comes closest to the radius can be told, up to the rounding of the radius
    to three digits. With all 100 000 draws the largest radii, between which counts leave gaps, lose their rounding
    (1.9057 was published as 1.91); others stay within it. The part is drawn for all images of a log, whichever are
    asked for, so that an image always has the same.
    """
    votes = _counts(radius / sigma)
    part = np.random.default_rng(draws).hypergeometric(votes, PUBLISHED_DRAWS - votes, draws)
    noise = Gaussian(sigma=sigma)
    shown = {int(k): noise.radius(lower_bound(int(k), draws, alpha)) for k in np.unique(part)}
    return np.array([shown[int(k)] for k in part])


def _counts(strength: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The votes of 100 000 whose bound p_lower comes closest to Phi^-1(p_lower) = strength."""
    n, p = PUBLISHED_DRAWS, special.ndtr(strength)
    # The smallest count whose tail P(X >= count) at p is at most alpha, by bisection over all images at once.
    low, high = np.full(len(p), n // 2), np.full(len(p), n)
    while np.any(low < high):
        middle = (low + high) // 2
        enough = special.betainc(middle, n - middle + 1, p) <= PUBLISHED_ALPHA
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    above, below = (special.ndtri(special.betaincinv(k, n - k + 1, PUBLISHED_ALPHA)) for k in (low, low - 1))
    counts: npt.NDArray[np.int64] = low - (strength - below < above - strength)
    return counts


def _in_official_order(run: Results) -> Results:
    """With the numbers that its images have in the official test set."""
    about = run.settings.data
    step = 1 if about is None else OF_PACKAGED.get(about.name, 1)
    if step == 1:
        return run
    return dataclasses.replace(
        run, records=tuple(dataclasses.replace(record, index=step * record.index) for record in run.records)
    )


@lru_cache(maxsize=1)
def _arrays() -> dict[str, npt.NDArray[Any]]:
    with np.load(FILE) as content:
        return dict(content)
