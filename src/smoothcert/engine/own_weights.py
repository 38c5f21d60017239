"""`OwnWeights`: an ensemble whose weights are each input's own, smoothed (EsbRS, Liu et al. 2023, algorithm 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine.inputs import Inputs
from smoothcert.engine.smoothed import Smoothed
from smoothcert.memory.protocol import RegionMemory, insert_in_order, predict_through
from smoothcert.models.ensembles import SoftmaxVoting, minimum_variance_weights_per_input
from smoothcert.models.ensembles.minimum_variance import PAPER, Estimation
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Predict, Prediction, Procedure, Scope

Answer = TypeVar("Answer", Certificate, Prediction)


@dataclass(frozen=True)
class OwnWeights:
    """Softmax voting, smoothed; the weights are found at every input anew, for the least variance of margins there.

    That is another classifier at every input: certificates and predictions have the scope "this input's own
    classifier", and nothing is claimed about neighbours, whose weights are others. A memory makes one classifier of
    them: from a certificate on, its region answers. Weights that are the same at every input need no memory
    (`minimum_variance_weights`).

    Certificates name the members by their fingerprint and the weights that were sampled with. The draws that find the
    weights are not those of the certificate. They are a function of (seed, input, members, settings).

    Args:
        members: the classifiers.
        num_classes: number of classes.
        noise: what is added to inputs.
        seed: of all draws.
        memory: through which answers go; its inputs come in the order in which they are certified.
        backend: how members are run, by name, not `auto`; see `Smoothed`. Weights are found by torch.
        calibration: training inputs, for int8.
        estimation: how the variances behind the weights are estimated.
    """

    members: Sequence[nn.Module]
    num_classes: int
    noise: Noise
    seed: int = 0
    memory: RegionMemory | None = None
    backend: str = "eager"
    calibration: Inputs | None = None
    estimation: Estimation = PAPER

    def __post_init__(self) -> None:
        if self.backend == "auto":
            raise InputError(
                "backend of OwnWeights must be named, got 'auto', which is measured anew at every input; name one"
            )

    def weights(self, x: Tensor) -> list[tuple[float, ...]]:
        """Of each input x (B, ...): one per member, and they sum to one."""
        found = minimum_variance_weights_per_input(
            self.members, x, noise=self.noise, estimation=self.estimation, seed=self.seed
        )
        return [one.weights for one in found]

    def certify(self, x: Tensor, procedure: Procedure | None = None) -> list[Certificate]:
        """A certificate per input x (B, ...); inserted into the memory, in this order, if there is one."""
        about = self._about(x)
        own = ((row, _own(g.certify(one, procedure)[0], about, w)) for row, (one, g, w) in enumerate(self._each(x)))
        if self.memory is None:
            return [answer for _, answer in own]
        # What the memory is not for is refused before anything is drawn.
        self.memory.check_owner(about["classifier"], about["noise"], tuple(x.shape[1:]))
        return [answer for _, answer in insert_in_order(self.memory, x, own)]

    def predict(self, x: Tensor, procedure: Predict | None = None) -> list[Prediction]:
        """An answer per input x (B, ...), or an abstention; inside a region of the memory, the region's."""
        about, procedure = self._about(x), procedure or Predict()

        def draw(rows: list[int]) -> Iterator[tuple[int, Prediction]]:
            for row, (one, g, w) in zip(rows, self._each(x[rows]), strict=True):
                yield row, _own(g.predict(one, procedure)[0], about, w)

        if self.memory is None:
            return [answer for _, answer in draw(list(range(len(x))))]
        return predict_through(self.memory, x, procedure, draw, **about)

    def _each(self, x: Tensor) -> Iterator[tuple[Tensor, Smoothed, tuple[float, ...]]]:
        """By input: itself as a batch, its smoothed classifier, and the weights of that."""
        for one in x:
            (weights,) = self.weights(one[None])
            yield one[None], self._smoothed(weights), weights

    def _smoothed(self, weights: Sequence[float] | None) -> Smoothed:
        return Smoothed(
            SoftmaxVoting(self.members, weights),
            self.num_classes,
            self.noise,
            self.seed,
            backend=self.backend,
            calibration=self.calibration,
        )

    def _about(self, x: Tensor) -> dict[str, Any]:
        """What all answers have in common: the members and how weights are found, not the weights."""
        if x.dim() in (1, 3):
            raise InputError(f"inputs of OwnWeights must be a batch (B, ...), got {tuple(x.shape)}; give x[None]")
        noise, described = self.noise.for_inputs(x).describe(), self._smoothed(None).describe(x)
        named = {
            "kind": f"{described['kind']}, weights of each input's own",
            "estimation": dataclasses.asdict(self.estimation),
        }
        return {"classifier": described | named, "noise": noise, "seed": self.seed}


def _own(answer: Answer, about: Mapping[str, Any], weights: Sequence[float]) -> Answer:
    classifier = about["classifier"] | {"weights": list(weights)}
    return dataclasses.replace(answer, scope=Scope.OWN, classifier=classifier)
