"""Attack the smoothed classifier of a run: below a certified radius nothing may succeed, beyond it robustness is seen.

Certified accuracy is a lower bound of what no attack can do; the accuracy that attacks leave is an upper bound
(Salman et al. 2019, section 4; Liu et al. 2021, table 9). A success below the radius is a false certificate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor, nn

from smoothcert.attack.adversaries import STANDARD, Adversary, AttackEffort, adversary, left_out
from smoothcert.attack.records import AttackConfig, Attacked, Violation
from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of
from smoothcert.core.randomness import generator, input_id
from smoothcert.engine import Routed, Smoothed
from smoothcert.procedures import Predict, Scope
from smoothcert.procedures.conversation import check_draws
from smoothcert.runs import Record, Run

JUDGE = Predict(n=100_000, alpha=1e-6)
"""What it takes to call a certificate false."""
ALMOST_SURELY = 1 - 1e-9
"""The level at which any majority is an answer."""
ROUTE = -1  # stands for the router among the parts of a routed classifier
NEAR = 0.99  # of a radius: a point as far as that has used it up


@dataclass(frozen=True)
class RoutedAnswer:
    """An answer, and of a routed classifier the member that gave it."""

    label: int
    route: int | None = None


@dataclass(frozen=True)
class AttackCampaign:
    """Adversaries, the radii to try beyond what is certified, and how many votes decide whether an answer changed."""

    smoothed: Smoothed | Routed
    judge: Smoothed | Routed  # the same with another seed: draws that a point was chosen on do not judge it
    adversaries: tuple[str, ...] = ("pgd", "ddn")
    radii: tuple[float, ...] = ()
    effort: AttackEffort = field(default_factory=AttackEffort)
    votes: int = 1_000
    inputs: int = 4  # attacked at once

    def __post_init__(self) -> None:
        noise = self.smoothed.noise
        if not noise.additive or noise.norm != "l2":
            raise InputError(
                "attack looks for l2 perturbations under noise that is added, such as Gaussian noise; the run has "
                f"{noise.name} noise and {noise.norm} radii"
            )
        if not self.smoothed.has_gradients:
            raise InputError(
                "attack needs a model with gradients, a torch module; a function and an ONNX file have none: attack "
                "the module that it was made from, certified by itself"
            )
        for name in self.adversaries:
            adversary(name, self.effort)
        if not all(0 < radius < math.inf for radius in self.radii):
            raise InputError(f"radii of an attack must be positive numbers, got {list(self.radii)}")
        check_draws("votes", self.votes, 11)  # as many as `Predict` needs

    def config(self, run: Run, indices: Sequence[int]) -> AttackConfig:
        """All that decides what will be found at the inputs `indices` of the run."""
        return AttackConfig(
            attacks=self.adversaries,
            autoattack=STANDARD if "autoattack" in self.adversaries else (),
            radii=self.radii,
            **asdict(self.effort),
            votes=self.votes,
            run=run.digest,
            indices=tuple(indices),
        )

    def attack(self, x: Tensor, records: Sequence[Record]) -> Iterator[Attacked]:
        """What is found at each input x (B, ...), given its record; in order."""
        for start in range(0, len(x), self.inputs):
            rows = slice(start, start + self.inputs)
            yield from self._chunk(x[rows], records[rows])

    def _chunk(self, x: Tensor, records: Sequence[Record]) -> list[Attacked]:
        clean = self._answers(x)
        distances = [dict[str, float | None]() for _ in records]
        violations: list[Violation | None] = [None] * len(records)
        for name in self.adversaries:
            attack = adversary(name, self.effort)
            for i, found in enumerate(self._below(attack, name, x, records)):
                violations[i] = violations[i] or found
            for i, distance in enumerate(self._beyond(attack, x, clean, records)):
                distances[i][name] = distance
        return [
            Attacked(
                r.index,
                r.label,
                clean[i].label,
                r.prediction,
                r.radius,
                self._with(distances[i], violations[i]),
                violations[i],
                self._left_out(x.shape[1:]),
            )
            for i, r in enumerate(records)
        ]

    def _below(self, attack: Adversary, name: str, x: Tensor, records: Sequence[Record]) -> list[Violation | None]:
        """Try to refute each certificate from just below its radius."""
        out: list[Violation | None] = [None] * len(records)
        rows = [i for i, record in enumerate(records) if not record.abstained and record.radius > 0]
        if not rows:
            return out
        radii = [records[i].radius for i in rows]
        away_from = [_claimed(records[i]) for i in rows]
        points, norms, answers = self._points(attack, x[rows], away_from, radii)
        for i, point, norm, answer in zip(rows, points, norms, answers, strict=True):
            if answer == records[i].prediction:
                continue
            (verdict,) = self.judge.predict(point[None], JUDGE)
            if not verdict.abstained and verdict.label != records[i].prediction:
                out[i] = Violation(name, norm, verdict.label, verdict.p_value)
        return out

    def _beyond(
        self, attack: Adversary, x: Tensor, clean: Sequence[RoutedAnswer], records: Sequence[Record]
    ) -> list[float | None]:
        """The norm at the smallest radius that changes the answer; radii that are certified need no trial."""
        out: list[float | None] = [None] * len(records)
        for radius in sorted(self.radii):
            rows = [
                i
                for i, r in enumerate(records)
                if out[i] is None and radius > r.radius and clean[i].label == _wanted(r, clean[i].label)
            ]
            if not rows or not radius:
                continue
            _, norms, answers = self._points(attack, x[rows], [clean[i] for i in rows], [radius] * len(rows))
            for i, norm, answer in zip(rows, norms, answers, strict=True):
                if answer != clean[i].label:
                    out[i] = norm
        return out

    def _points(
        self, attack: Adversary, x: Tensor, away_from: Sequence[RoutedAnswer], radii: Sequence[float]
    ) -> tuple[Tensor, list[float], list[int]]:
        """Perturbed inputs, each strictly nearer than its radius, their distances rounded up, and the answers there.

        A routed classifier is attacked in both ways: the chosen member is driven to another class, and, where that does
        not change the answer, the router to another member.
        """
        points, norms, answers = x.clone(), [0.0] * len(x), [one.label for one in away_from]
        for number in (None, ROUTE):
            groups: dict[int | None, list[int]] = {}
            for i, one in enumerate(away_from):
                if answers[i] == one.label and (number is None or one.route is not None):
                    groups.setdefault(one.route if number is None else ROUTE, []).append(i)
            for part, rows in groups.items():
                goals = [away_from[i].label if part != ROUTE else int(away_from[i].route or 0) for i in rows]
                limits = [radii[i] for i in rows]
                found = self._points_of(self._part(part), attack, x[rows], goals, [away_from[i] for i in rows], limits)
                for i, point, norm, answer in zip(rows, *found, strict=True):
                    if norms[i] == 0.0 or answer != away_from[i].label:
                        points[i], norms[i], answers[i] = point, norm, answer
        return points, norms, answers

    def _part(self, number: int | None) -> Smoothed:
        """The smoothed classifier whose gradients are followed: a member, the router, or the only one there is."""
        if not isinstance(self.smoothed, Routed):
            return self.smoothed
        return self.smoothed.router if number == ROUTE else list(self.smoothed.members.values())[number or 0]

    def _points_of(
        self,
        part: Smoothed,
        attack: Adversary,
        x: Tensor,
        goals: Sequence[int],
        away_from: Sequence[RoutedAnswer],
        radii: Sequence[float],
    ) -> tuple[Tensor, list[float], list[int]]:
        """The same by the gradients of one part, away from its classes `goals`.

        Attacks of smallest norm stop a hair beyond the boundary that some draws show, which may be the near side of the
        true one: where the answer has not changed, the rest of the radius is gone in the same direction.
        """
        y, eps = torch.tensor(goals), torch.tensor(radii)
        model = part.model
        assert isinstance(model, nn.Module)
        deltas = torch.stack([self._deltas(row, part) for row in x])
        moved = attack(model, *(tensor.to(device_of(model)) for tensor in (x, y, deltas, eps))).to(x.device)
        limits = torch.tensor(radii, dtype=torch.float64)
        points, norms = strictly_inside(x, moved, limits, part.noise.levels)
        answers = [one.label for one in self._answers(points)]
        rows = [
            i for i, answer in enumerate(answers) if answer == away_from[i].label and 0 < norms[i] < NEAR * radii[i]
        ]
        if rows:
            further = stretched(x[rows], points[rows], limits[rows])
            ends, far = strictly_inside(x[rows], further, limits[rows], part.noise.levels)
            for row, end, norm, answer in zip(rows, ends, far, self._answers(ends), strict=True):
                if answer.label != away_from[row].label:
                    points[row], norms[row], answers[row] = end, norm, answer.label
        return points, norms, answers

    def _left_out(self, shape: Sequence[int]) -> dict[str, dict[str, str]]:
        """By adversary, what of it this classifier does not allow, with the reason."""
        parts = {name: left_out(name, self.smoothed.num_classes, shape) for name in self.adversaries}
        return {name: skipped for name, skipped in parts.items() if skipped}

    def _deltas(self, x: Tensor, part: Smoothed) -> Tensor:
        stream = generator(part.seed, input_id(x), "attack", 0)
        rows = x.expand(self.effort.draws, *x.shape)
        return part.noise.draw(rows, stream) - x  # (m, ...)

    def _answers(self, x: Tensor) -> list[RoutedAnswer]:
        """The majority vote at each point; of a router, that of the member which most votes choose."""
        if not isinstance(self.smoothed, Routed):
            found = self.smoothed.predict(x, Predict(n=self.votes))
            return [RoutedAnswer(max(range(len(p.votes)), key=p.votes.__getitem__)) for p in found]
        return [
            RoutedAnswer(p.label, None if p.route is None or p.route.abstained else p.route.label)
            for p in self.smoothed.predict(x, Predict(n=self.votes, alpha=ALMOST_SURELY))
        ]

    @staticmethod
    def _with(distances: dict[str, float | None], violation: Violation | None) -> dict[str, float | None]:
        if violation is None:
            return distances
        known = distances[violation.adversary]
        nearest = violation.distance if known is None else min(known, violation.distance)
        return distances | {violation.adversary: nearest}


def refuse_scopes(records: Sequence[Record]) -> None:
    """Refuse certificates that do not speak of one fixed classifier, which is what an attack asks."""
    scopes = {record.claim.scope for record in records if record.claim is not None}
    if Scope.OWN in scopes:
        raise InputError(
            f"attack cannot refute certificates of the scope {Scope.OWN.value!r}: they claim nothing about neighbours; "
            "certify with --memory, or with one noise for all"
        )
    if Scope.MEMORY in scopes:
        raise InputError(
            "attack cannot ask a memory: inside its regions the memory itself answers, so nothing below a radius can "
            "change; see smoothcert verify --memory"
        )


def stretched(x: Tensor, points: Tensor, radii: Tensor) -> Tensor:
    """Points (B, ...) in the same directions from x, as far as the radii (B,), inside [0, 1]."""
    moved = points.double() - x.double()
    longer = radii / moved.flatten(1).norm(dim=1).clamp(min=1e-12)  # (B,)
    ends: Tensor = (x.double() + moved * longer.view(-1, *[1] * (x.dim() - 1))).clamp(0, 1).float()
    return ends


def strictly_inside(x: Tensor, points: Tensor, radii: Tensor, levels: int | None) -> tuple[Tensor, list[float]]:
    """Points (B, ...) moved towards x until they are nearer than their radii (B,), and on the grid if there is one.

    Distances are of the float32 points themselves, in float64, rounded up: what is judged is what was measured.
    """
    for _ in range(50):
        moved = points.double() - x.double()
        if levels is not None:
            # Towards x: a coordinate that is a whole step away but for rounding stays where it is.
            steps = moved.sign() * (moved.abs() * levels + 1e-3).floor()
            points = (((x.double() * levels).round() + steps) / levels).float().clamp(0, 1)
            moved = points.double() - x.double()
        norms = moved.flatten(1).norm(dim=1) * (1 + 2.0**-40)
        far = norms >= radii
        if not bool(far.any()):
            return points, norms.tolist()
        shrink = torch.where(far, radii / norms * (1 - 1e-5), 1.0)
        points = (x.double() + moved * shrink.view(-1, *[1] * (x.dim() - 1))).float()
    points = torch.where(far.view(-1, *[1] * (x.dim() - 1)), x, points)
    return points, torch.where(far, 0.0, norms).tolist()


def _claimed(record: Record) -> RoutedAnswer:
    """What is certified, and of a routed classifier who answers."""
    route = None if record.certificate is None else record.certificate.route
    return RoutedAnswer(record.prediction, None if route is None else route.label)


def _wanted(record: Record, answer: int) -> int:
    """The truth; where nobody knows it, the answer itself."""
    return record.label if record.labelled else answer
