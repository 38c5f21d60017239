"""CERTIFY for test data: an input whose class is chosen wrongly is given up, because no table would count it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.procedures.certificate import Certificate
from smoothcert.procedures.conversation import PROCEDURES, Conversation, Geometry, Procedure
from smoothcert.procedures.fixed import Fixed
from smoothcert.procedures.from_draws import ABSTAIN


@PROCEDURES.add
@dataclass(frozen=True, kw_only=True)
class Evaluate(Procedure):
    """`Fixed` where the n0 draws choose the label of the input, and an abstention where they do not.

    Certified accuracy at every radius, and the ACR, are those of `Fixed`, to the last bit: they count right answers
    alone, and those have the same draws. It saves the n draws of every other input, which are about half of all on
    CIFAR-10 at sigma 0.5. Sound, because the label can only take a certificate away. What it no longer says is how many
    answers are certified and wrong: they stand among the abstentions. Where there is no label there is nothing to
    evaluate: such inputs are refused.
    """

    name: ClassVar[str] = "evaluate"
    for_test_data: ClassVar[bool] = True
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    # Of the one input that a conversation is about; a run has it in its records.
    truth: int | None = field(default=None, compare=False, repr=False, metadata={"described": False})

    def __post_init__(self) -> None:
        _ = self._fixed  # which refuses what cannot work

    @property
    def _fixed(self) -> Fixed:
        return Fixed(n0=self.n0, n=self.n, alpha=self.alpha)

    def knowing(self, label: int) -> Self:
        """The same for an input with this label."""
        return replace(self, truth=label)

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Choose; if that is right, all that `Fixed` does."""
        if self.truth is None or self.truth == UNKNOWN:
            raise InputError(
                "procedure evaluate is for test data, and needs the label of every input; give labels, or take "
                "--procedure fixed"
            )
        fixed = self._fixed.certify(noise)
        chosen = yield next(fixed)
        if chosen.top != self.truth:
            return Certificate(
                label=ABSTAIN,
                radius=0.0,
                reason=f"class {chosen.top} was chosen, the label is {self.truth}: its probability was not bounded",
                norm=noise.norm,
                p_lower=0.0,
                alpha=self.alpha,
                procedure=self.describe(),
            )
        bounding = yield fixed.send(chosen)
        try:
            fixed.send(bounding)
        except StopIteration as stop:
            found: Certificate = stop.value
        return replace(found, procedure=self.describe())

    def most_draws(self) -> int:
        """n0 + n, where the choice is right."""
        return self.n0 + self.n

    def fixed_draws(self) -> int:
        """What `Fixed` takes: always n0 + n."""
        return self.n0 + self.n
