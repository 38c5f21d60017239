"""The paper's own search (DDRS, Alfarra et al. 2022, algorithm 1): gradient ascent on the soft radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.sigma.base import CHOOSING, SEARCHES, RunAll, SigmaSearch, stream_of
from smoothcert.noise import Noise
from smoothcert.noise.ascent import ascend, searchable, unit_draws
from smoothcert.noise.base import check_positive, per_row


@SEARCHES.add
@dataclass(frozen=True)
class DDRS(SigmaSearch):
    """K = `steps` of sigma <- sigma + lr dR/dsigma, R the soft radius of n = `draws` fresh draws. Needs gradients.

    Departures from the paper: the class is that of equation 3, the answer at sigma_0, and not whatever the draws of a
    step answer; sigma is kept in its span, else it may walk to 0 or away; and the end is put on the lattice. Paper:
    n = 1 (8 for MACER), K from 100 to 900.

    Many inputs go through the model at once, and scores may be rounded otherwise at another place among them: where the
    end is as near to two strengths of the lattice, it may then be the other one.
    """

    name: ClassVar[str] = "ddrs"
    slack: ClassVar[int] = 1
    steps: int = 400
    draws: int = 1
    lr: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("lr of ddrs", self.lr)

    @property
    def evaluations(self) -> int:
        """Forward and back, as the paper counts them."""
        return CHOOSING + 2 * self.steps * self.draws

    def strengths(
        self, run_all: RunAll, model: Model, x: Tensor, noise: Noise, *, seed: int, threads: int | None = None
    ) -> list[float]:
        """In chunks of inputs, always as many, because one draw at a time would leave the machine idle."""
        bound, size = searchable(noise.for_inputs(x)), max(1, BLOCK // self.draws)
        before, found = torch.get_num_threads(), list[float]()
        torch.set_num_threads(threads or before)
        try:
            with torch.autocast(x.device.type, enabled=False):
                for part in torch.split(x, size):
                    found += self._chunk(model, part, size, bound, seed)
        finally:
            torch.set_num_threads(before)
        return found

    def _chunk(self, model: Model, given: Tensor, size: int, noise: Noise, seed: int) -> list[float]:
        """Missing inputs repeat the first, so that the model always sees one shape."""
        x = _filled(given, size)
        streams = [stream_of(seed, one) for one in given]

        def units(draws: int) -> Tensor:
            each = [unit_draws(noise, one, draws, stream) for one, stream in zip(given, streams, strict=True)]
            return _filled(torch.stack(each), size)  # (B, draws, ...)

        low, high = noise.strength / self.span, noise.strength * self.span
        sigma = torch.full((size,), noise.strength, dtype=torch.float64, device=x.device)
        with torch.no_grad():
            first = [model(x + per_row(sigma, x) * unit).softmax(dim=-1) for unit in units(CHOOSING).unbind(dim=1)]
        label = torch.stack(first).mean(dim=0).argmax(dim=1)
        for _ in range(self.steps):
            sigma = ascend(model, noise, x, sigma, units(self.draws), lr=self.lr, label=label).clamp(low, high)
        return [self._on_lattice(one, noise) for one in sigma[: len(given)].tolist()]


def _filled(x: Tensor, size: int) -> Tensor:
    return torch.cat([x, x[:1].expand(size - len(x), *x.shape[1:])])
