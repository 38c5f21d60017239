"""What has to be known to build a network before its weights are filled in."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from smoothcert.core.errors import InputError

# Far above any real model: a damaged checkpoint header must not ask for sizes that overflow a tensor.
_LARGEST_SIDE = 2**16
_MOST_CLASSES = 2**24


@dataclass(frozen=True)
class Architecture:
    """A network without its weights: the name it is registered under, and the sizes that shape it.

    Two equal specifications build networks with the same tensors. Lists are accepted where tuples are declared, and
    what cannot be a network (whatever its name) is refused here with an `InputError`.

    Args:
        name: a registered name, such as `"cifar-resnet20"`; checked by `build`.
        num_classes: the number of scores. A denoiser has none and ignores it (0 is usual).
        input_shape: (channels, height, width) of one input.
        mean: per channel, of raw pixels in [0, 1]; empty for a network without a `Normalize` layer.
        std: per channel, positive; empty exactly when `mean` is.
    """

    name: str
    num_classes: int
    input_shape: tuple[int, int, int]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name must be the name of an architecture, got {self.name!r}")
        object.__setattr__(self, "num_classes", _whole("num_classes", self.num_classes, 0, _MOST_CLASSES))
        shape = _listed("input_shape", self.input_shape)
        if len(shape) != 3:
            raise InputError(f"input_shape must be (channels, height, width), got {self.input_shape!r}")
        sizes = tuple(_whole("input_shape", size, 1, _LARGEST_SIDE) for size in shape)
        object.__setattr__(self, "input_shape", sizes)
        object.__setattr__(self, "mean", _finite("mean", self.mean))
        object.__setattr__(self, "std", _finite("std", self.std))
        if len(self.mean) not in (0, sizes[0]) or len(self.mean) != len(self.std):
            raise InputError(
                f"mean and std must both have one number per channel ({sizes[0]}) or both be empty, "
                f"got {len(self.mean)} and {len(self.std)}"
            )
        if any(value <= 0 for value in self.std):
            raise InputError(f"std must be positive in every channel, got {self.std}")

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary; `from_json` gives an equal specification back."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; an `InputError` names a key that is missing or unknown."""
        if not isinstance(data, Mapping):
            raise InputError(f"an architecture must be a JSON object, got {type(data).__name__}")
        known = {field.name for field in fields(cls)}
        for key in data:
            if key not in known:
                raise InputError(f"an architecture has no key {key!r}; allowed are {', '.join(sorted(known))}")
        for key in ("name", "num_classes", "input_shape"):
            if key not in data:
                raise InputError(f"an architecture needs the key {key!r}, got only {', '.join(data) or 'none'}")
        return cls(**data)


def _listed(argument: str, values: object) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(f"{argument} must be a sequence of numbers, got {values!r}")
    return list(values)


def _whole(argument: str, value: Any, smallest: int, largest: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not smallest <= number <= largest:
        raise InputError(f"{argument} must be a whole number from {smallest} to {largest}, got {value!r}")
    return number


def _finite(argument: str, values: object) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in _listed(argument, values))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{argument} must be a sequence of numbers, got {values!r}") from error
    if not all(map(math.isfinite, numbers)):
        raise InputError(f"{argument} must be finite in every channel, got {numbers}")
    return numbers
