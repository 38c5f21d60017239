"""`Routed`: a smoothed router chooses, for each input, which smoothed classifier answers. One fixed classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import input_id
from smoothcert.engine.inputs import Inputs
from smoothcert.engine.pools import Pool
from smoothcert.engine.routed_parts import (
    OwnPredict,
    RoutedCompiled,
    Smoothing,
    all_smoothed,
    by_member,
    check_parts,
    describe_parts,
    noise_at,
    rows_of,
    why_not,
)
from smoothcert.engine.smoothed import Smoothed
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Certificates, Fixed, Predict, Prediction, Procedure
from smoothcert.procedures.routed import (
    Answer,
    Chosen,
    OfRouter,
    join,
    join_predictions,
    split_level,
    unreachable,
)

LEAST_AT_ONCE, MOST_AT_ONCE = 8, 128  # inputs that are routed before the first of them is answered
ROUTED_DRAWS = 2**20  # and about so many draws of the router at most: a kill loses no more


class Routed:
    """G(x) = g_{H(x)}(x): the smoothed router H says whose noise suits x, and that smoothed classifier g_k answers.

    After Dual Randomized Smoothing (Sun, Mao & Vechev 2026). The radius is the smaller one of the router's and of the
    chosen classifier's; what is allowed to go wrong, alpha, is shared between the two before anything is drawn
    (`procedures.routed` has the proof). Certificates speak about one fixed classifier, and need no memory. Where the
    router abstains, so does the whole.

    Args:
        router: h, a model whose class k stands for the k-th of the strengths, ascending.
        members: by the strength of its noise, the model that answers there; any model, ensembles included.
        noise: of the router; members have the same with their own strengths. Default: Gaussian, of the largest
            strength, because the router's radius limits every other. Take the one that it was trained with.
        num_classes: of the members. Default: they are asked when the first inputs come.
        seed: of all draws, as of `Smoothed`. Default: 0.
        pool: where all draws are evaluated, as of `Smoothed`.
        router_share: of alpha, for the router. Half by default.

    For a backend or a device, give every part as a `Smoothed`, of one seed and kind of noise, and leave these out.
    """

    search, weights, memory = None, None, None  # as of a `Smoothed` that has one noise for all, and answers by itself

    def __init__(
        self,
        router: Smoothed | Model,
        members: Mapping[float, Smoothed | Model],
        *,
        noise: Noise | None = None,
        num_classes: int | None = None,
        seed: int | None = None,
        pool: Pool | None = None,
        router_share: float = 0.5,
    ) -> None:
        split_level(Predict(), router_share)
        how, given = Smoothing(noise, num_classes, seed, pool), dict(sorted(members.items()))
        self._strengths, self._share, self._smoothing = tuple(map(float, given)), float(router_share), how
        self._models, self._smoothed = given, dict[float, Smoothed]()
        if isinstance(router, Smoothed) or any(isinstance(part, Smoothed) for part in given.values()):
            how.refuse()
            self._router, self._smoothed = all_smoothed(router, given)
            check_parts(self._router, self._smoothed)
            return
        self._router = how.router(router, self._strengths)
        if num_classes is not None:
            self._smooth(None)

    def _smooth(self, example: Tensor | None) -> None:
        """Smooth members that came as models; inputs like `example`, (1, ...), ask them for their classes."""
        if not self._smoothed:
            smoothed = self._smoothing.members(self.models, self._router, example)
            check_parts(self._router, smoothed)
            self._smoothed = smoothed

    @property
    def _members(self) -> tuple[Smoothed, ...]:
        self._smooth(None)
        return tuple(self._smoothed.values())

    def _batch(self, x: Inputs) -> Tensor:
        batch = self._router.as_batch(x)
        self._smooth(batch[:1])
        return batch

    def __repr__(self) -> str:
        name = self._router.noise.strength_name
        strengths = ", ".join(f"{strength:g}" for strength in self._strengths)
        return f"Routed({name} {strengths} by {self._router!r})"

    @property
    def router(self) -> Smoothed:
        """H: its classes are numbers of members."""
        return self._router

    @property
    def members(self) -> dict[float, Smoothed]:
        """By strength, ascending: g_0, g_1, ..."""
        return dict(zip(self._strengths, self._members, strict=True))

    @property
    def models(self) -> dict[float, Model]:
        """By strength, ascending: f_0, f_1, ..."""
        parts = self._models.items()
        return {s: part.model if isinstance(part, Smoothed) else part for s, part in parts}

    @property
    def strengths(self) -> tuple[float, ...]:
        """Of the members' noise, ascending: class k of the router is the k-th."""
        return self._strengths

    @property
    def router_share(self) -> float:
        """The router's share of alpha."""
        return self._share

    @property
    def noise(self) -> Noise:
        """That of the first member: the others' are stronger, and else the same."""
        return self._members[0].noise

    @property
    def num_classes(self) -> int:
        """Number of classes that the members tell apart."""
        return self._members[0].num_classes

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self._router.seed

    @property
    def has_gradients(self) -> bool:
        """Whether gradients go through the router and every member."""
        return all(part.has_gradients for part in (self._router, *self._members))

    def compile(self, shape: Sequence[int], *, say: Callable[[str], None] = lambda _: None) -> RoutedCompiled:
        """The router and all members as they are run for inputs of this shape; see `Smoothed.compile`."""
        self._smooth(torch.zeros(1, *shape))
        router = self._router.compile(shape, say=say)
        members = tuple(member.compile(shape, say=say) for member in self._members)
        return RoutedCompiled(router, members, self._description(router.description, [m.description for m in members]))

    def describe(self, x: Inputs | None = None) -> dict[str, Any]:
        """What identifies the classifier: the router's description, every member's, and a fingerprint of the whole."""
        self._smooth(None if x is None else self._router.as_batch(x)[:1])
        return self._description(self._router.describe(x), [member.describe(x) for member in self._members])

    def check(self, x: Inputs) -> None:
        """Refuse inputs or models that cannot be certified, at the price of some hundred draws for each model."""
        batch = self._batch(x)
        for part in (self._router, *self._members):
            part.check(batch)

    def certify(self, x: Inputs, procedure: Procedure | None = None) -> Certificates:
        """A certificate per input, each with the router's own as its `route`; see `Smoothed.certify`."""
        ordered = sorted(self.certifying(x, procedure), key=lambda pair: pair[0])
        return Certificates((answer for _, answer in ordered), images=self._router.as_batch(x).cpu().numpy())

    def certifying(
        self,
        x: Inputs,
        procedure: Procedure | None = None,
        *,
        on_draws: Callable[[int], None] = lambda _: None,
        compiled: RoutedCompiled | None = None,
    ) -> Iterator[tuple[int, Certificate]]:
        """Like `certify`, but yields (row, certificate) as they are there; see `Smoothed.certifying`.

        Some inputs are routed at a time; then each member answers those that it was chosen for, side by side.
        """
        procedure, batch = procedure or Fixed(), self._batch(x)
        of_router, of_member = split_level(procedure, self._share)
        self.check_reachable(batch, procedure)
        parts = compiled or self.compile(batch.shape[1:])
        at_once = min(MOST_AT_ONCE, max(LEAST_AT_ONCE, ROUTED_DRAWS // procedure.fixed_draws()))
        for start in range(0, len(batch), at_once):
            rows = batch[start : start + at_once]
            asking = self._router.certifying(rows, OfRouter(of_router), on_draws=on_draws, compiled=parts.router)
            routes = dict(asking)
            for row, answer in self._answered(rows, routes, procedure, of_member, parts, on_draws):
                yield start + row, answer

    def predict(self, x: Inputs, procedure: Predict | None = None) -> list[Prediction]:
        """The routed classifier's answer per input, or an abstention: PREDICT of the router, then of who it chose."""
        procedure, batch = procedure or Predict(), self._batch(x)
        of_router, of_member = split_level(procedure, self._share)
        shares = (of_router.alpha / procedure.alpha, of_member.alpha / procedure.alpha)
        parts = self.compile(batch.shape[1:])
        routes = self._router.predict(batch, OwnPredict(n=of_router.n, alpha=of_router.alpha))
        found = {
            row: self._whole(join_predictions(procedure, shares, route, None, None), batch[row], 0, parts)
            for row, route in enumerate(routes)
            if route.abstained
        }
        chosen = {row: route for row, route in enumerate(routes) if not route.abstained}
        for number, rows in by_member(chosen).items():
            answers = self._members[number].predict(rows_of(batch, rows), of_member)
            for row, answer in zip(rows, answers, strict=True):
                joined = join_predictions(procedure, shares, routes[row], answer, self._chosen(routes[row]))
                found[row] = dataclasses.replace(joined, classifier=parts.description)
        return [found[row] for row in range(len(batch))]

    def most_draws(self, procedure: Procedure) -> int:
        """The most draws that one input can take: the router's and those of the member that it chooses."""
        return sum(part.most_draws() for part in split_level(procedure, self._share))

    def fixed_draws(self, procedure: Procedure) -> int:
        """What `Fixed` would take per input, of both, to show as much."""
        return sum(part.fixed_draws() for part in split_level(procedure, self._share))

    def check_reachable(self, batch: Tensor, procedure: Procedure) -> None:
        """Refuse what the router, or all members, could never show; one member that cannot abstains where chosen."""
        of_router, of_member = split_level(procedure, self._share)
        if why := unreachable(of_router, self._router.noise.for_inputs(batch)):
            raise InputError(f"the router cannot do it: {why}")
        reasons = [unreachable(of_member, member.noise.for_inputs(batch)) for member in self._members]
        if all(reasons):
            raise InputError(reasons[-1])

    def _answered(
        self,
        batch: Tensor,
        routes: Mapping[int, Certificate],
        procedure: Procedure,
        of_member: Procedure,
        parts: RoutedCompiled,
        on_draws: Callable[[int], None],
    ) -> Iterator[tuple[int, Certificate]]:
        """What comes of each input, given what the router said of it."""
        unasked = {row: self.unasked(procedure, batch[row], route, parts) for row, route in routes.items()}
        yield from ((row, answer) for row, answer in unasked.items() if answer is not None)
        rest = {row: route for row, route in routes.items() if unasked[row] is None}
        for number, asked in by_member(rest).items():
            answers = self._members[number].certifying(
                rows_of(batch, asked), of_member, on_draws=on_draws, compiled=parts.members[number]
            )
            for place, answer in answers:
                yield asked[place], self.joined(procedure, routes[asked[place]], answer, parts)

    def unasked(self, procedure: Procedure, x: Tensor, route: Certificate, parts: RoutedCompiled) -> Certificate | None:
        """The answer to one input where the router abstains, or whom it chose can never show it; None: ask that one."""
        if route.abstained:
            return self._whole(join(procedure, route, None, None), x, 0, parts)
        _, of_member = split_level(procedure, self._share)
        why = why_not(of_member, noise_at(self._members[route.label], x))
        found = join(procedure, route, None, self._chosen(route), why_not=why)
        return self._whole(found, x, route.label, parts) if why else None

    def joined(
        self, procedure: Procedure, route: Certificate, member: Certificate, parts: RoutedCompiled
    ) -> Certificate:
        """The answer to one input, from that of the router and of the member that it chose."""
        found = join(procedure, route, member, self._chosen(route))
        return dataclasses.replace(found, classifier=parts.description)

    def _chosen(self, route: Certificate | Prediction) -> Chosen:
        return Chosen(self.noise.strength_name, self._strengths[route.label])

    def _whole(self, answer: Answer, x: Tensor, number: int, parts: RoutedCompiled) -> Answer:
        """An answer without a draw of a member, with all that is said of those with one."""
        noise = noise_at(self._members[number], x)
        return dataclasses.replace(
            answer,
            noise=noise.describe(),
            classifier=parts.description,
            stream=noise.stream_kind(parts.members[number].device),
            input_id=input_id(x),
        )

    def _description(self, router: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        own = [getattr(part.noise, part.noise.strength_name) for part in (self._router, *self._members)]
        return describe_parts(router, dict(zip(self._strengths, members, strict=True)), self.noise, own)
