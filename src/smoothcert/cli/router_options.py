"""Options of a router, which chooses the noise of each input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from smoothcert.cli.options import NOISE, option

Model = Annotated[
    Path | None,
    option("Model that chooses the noise of each input: its class k is the k-th strength of --model.", panel=NOISE),
]
Strength = Annotated[
    float | None, option("Strength of the router's noise. Default: as it was trained.", "--router-sigma", panel=NOISE)
]
Share = Annotated[float, option("The router's share of alpha.", "--router-share", panel=NOISE)]
