"""Objectives, attacks and schedules as the tables of recipes write them: a name and the fields of that class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Each:
    """One value per sigma of the row."""

    values: tuple[Any, ...]


def each(*values: Any) -> Each:
    """One value per sigma of the row."""
    return Each(values)


def pgd(eps: Any, steps: Any, step_size: Any = None) -> dict[str, Any]:
    """The attack of SmoothAdv; without a ball but with a step size, that of SmoothMix."""
    return {"name": "pgd", "eps": eps, "steps": steps} | ({} if step_size is None else {"step_size": step_size})


def carried(eps: Any) -> dict[str, Any]:
    """An attack of one step that goes on from epoch to epoch."""
    return {"name": "carried", "eps": eps, "steps": 1}


def steps(every: int) -> dict[str, Any]:
    """x0.1 after every so many epochs."""
    return {"name": "step", "every": every}


def at(*milestones: int) -> dict[str, Any]:
    """x0.1 at these epochs."""
    return {"name": "step", "milestones": list(milestones)}


def macer(lam: Any, draws: int = 16, **more: Any) -> dict[str, Any]:
    """MACER with gamma 8 and beta 16."""
    return {"name": "macer", "draws": draws, "lam": lam, "gamma": 8.0, "beta": 16.0} | more


def advmacer(lam: Any, draws: Any, attack: dict[str, Any]) -> dict[str, Any]:
    """AdvMacer with gamma 8 and beta 16."""
    return macer(lam) | {"name": "advmacer", "draws": draws, "attack": attack, "warmup": 10}


def smoothadv(draws: Any, attack: dict[str, Any]) -> dict[str, Any]:
    """SmoothAdv, warmed up over 10 epochs."""
    return {"name": "smoothadv", "draws": draws, "attack": attack, "warmup": 10}


def consistency(lam: Any, eta: Any = 0.5, **more: Any) -> dict[str, Any]:
    """Consistency with two draws, unless told otherwise."""
    return {"name": "consistency", "draws": 2, "lam": lam, "eta": eta} | more


def smoothmix(draws: int, number: Any, length: Any) -> dict[str, Any]:
    """SmoothMix with eta 5."""
    return {"name": "smoothmix", "draws": draws, "attack": pgd(None, number, length), "eta": 5.0, "warmup": 10}


def catrs(lam: Any) -> dict[str, Any]:
    """CAT-RS with four draws, four steps and eps 256/255."""
    return {"name": "catrs", "draws": 4, "lam": lam, "eps": 256 / 255, "steps": 4, "teacher": None}


def ds2(epochs: int, draws: int = 1) -> dict[str, Any]:
    """Of Alfarra 2022: a quarter of the epochs at fixed sigma, 50 of 200; lr 1e-4 then.

    With fewer epochs lr is as much higher: strengths, which take one step per epoch, then come as far.
    """
    start = round(epochs / 4)
    return {"start": start, "lr": 1e-4 * 150 / max(1, epochs - start), "draws": draws}
