"""Another alpha, or fewer draws, from the votes that a run stored. No model, no new draws.

The recorded votes take the engine's part in the conversation with the procedure, so what comes out is a certificate
like any other. Its guarantee is that of one run at one alpha and n, decided on beforehand: taking the best of several
re-analyses would be choosing a claim by its luck.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.procedures import Ask, Certificate, FixedDraws, Procedure, Scope, converse
from smoothcert.procedures.conversation import BOUND, CHOOSE
from smoothcert.runs import Record
from smoothcert.stats import Tally

# Another version of scipy may round a quantile differently; more than that is no rounding.
SAME = 1e-9
MOST = 10**9  # numpy's hypergeometric law goes no further


def reanalyse(result: Results, *, alpha: float | None = None, n: int | None = None, seed: int = 0) -> Results:
    """The same run of `Fixed` at another `alpha`, with `n` of its draws per input, or both; refused for all else.

    What holds for `Fixed` holds for every procedure that is a `FixedDraws`.

    A random subset of n independent draws is n independent draws, so the certificate is as valid as one that had drawn
    n in the first place: the subset's votes follow the multivariate hypergeometric law given all votes, and are drawn
    from it with a seed per input (`seed` and the index). The draws that chose the class are kept. With alpha and n as
    recorded every number is reproduced to the last bit.
    """
    recorded = _procedure(result)
    if n is not None and recorded.bound.beta is not None and n != recorded.n:
        raise InputError(
            f"{result.name} holds sums of soft scores, of which no subset can be drawn; leave --n out, or certify again"
        )
    if n is not None and n > recorded.n:
        raise InputError(f"n must be at most the {recorded.n} draws that {result.name} recorded, got {n}")
    wanted = dataclasses.replace(
        recorded, alpha=recorded.alpha if alpha is None else alpha, n=recorded.n if n is None else n
    )
    records = tuple(_again(result.name, record, recorded, wanted, seed) for record in result.records)
    note = f"computed again from the stored votes at alpha {wanted.alpha:g} with n = {wanted.n}"
    settings = dataclasses.replace(
        result.settings,
        alpha=wanted.alpha,
        procedure=wanted.describe(),
        fixed_draws=wanted.fixed_draws(),
        recorded_procedure=recorded.describe(),
        note="; ".join(filter(None, [result.settings.note, note])),
    )
    return dataclasses.replace(result, records=records, settings=settings)


def subset_votes(tally: Tally, n: int, seed: tuple[int, ...]) -> Tally:
    """The votes of a random n of the draws in a tally: never more of any class than there are."""
    if n == tally.draws:
        return tally
    if tally.draws >= MOST:
        raise InputError(f"a subset can be drawn of fewer than {MOST} draws, got {tally.draws}; leave n out")
    chosen = np.random.default_rng(seed).multivariate_hypergeometric(tally.votes, n)
    return Tally(tuple(int(v) for v in chosen))


def _procedure(result: Results) -> FixedDraws:
    """The procedure of the run, rebuilt from its description."""
    described = result.settings.procedure
    if result.settings.routing is not None:
        raise InputError(f"{result.name} has a router, whose votes are not computed again; certify at that alpha or n")
    if described is None or any(record.claim is None for record in result.records):
        raise InputError(f"{result.name} keeps no votes to compute anything again from; give a run made by certify")
    procedure = Procedure.from_description(described)
    if not isinstance(procedure, FixedDraws):
        raise InputError(
            f"{result.name} was certified by {procedure.name!r}, whose draws were not the same number for every input; "
            "only runs of 'fixed' can be computed again"
        )
    return procedure


def _again(name: str, record: Record, recorded: FixedDraws, wanted: FixedDraws, seed: int) -> Record:
    old = record.certificate
    assert old is not None
    if old.scope is Scope.MEMORY:
        raise InputError(f"{name}: radii that depend on a memory cannot be computed again from votes; certify again")
    draws = {purpose: tally.draws for purpose, tally in old.tallies.items()}
    if draws != {CHOOSE: recorded.n0, BOUND: recorded.n} or not old.label < old.tallies[BOUND].num_classes:
        raise InputError(f"{name}: the votes of input {record.index} are not those of its procedure: it was damaged")
    noise = Noise.from_description(old.noise)
    key = (seed, record.index % 2**64)
    _check(name, record.index, old, _replay(old, recorded, noise, key))
    new = _replay(old, wanted, noise, key)
    kept = {name: getattr(old, name) for name in ("noise", "classifier", "seed", "stream", "input_id", "scope")}
    full = dataclasses.replace(new, **kept)
    # Nobody measured how long fewer draws would have taken.
    seconds = record.seconds if wanted.n == recorded.n else None
    return Record(record.index, record.label, full.label, full.radius, full.draws, seconds, full)


def _replay(old: Certificate, procedure: FixedDraws, noise: Noise, seed: tuple[int, ...]) -> Certificate:
    def draw(ask: Ask) -> Tally:
        stored = old.tallies[ask.purpose]
        return subset_votes(stored, ask.n, seed) if ask.purpose == BOUND else stored

    return converse(procedure.certify(noise), draw)


def _check(name: str, index: int, old: Certificate, again: Certificate) -> None:
    """Refuse what the recorded votes do not give at the recorded settings: something else decided as well."""
    if old.label != again.label or not (
        math.isclose(old.p_lower, again.p_lower, rel_tol=SAME) and math.isclose(old.radius, again.radius, rel_tol=SAME)
    ):
        raise InputError(
            f"{name}: the votes of input {index} do not give its recorded radius, so something else decided it, or it "
            "was damaged; certify again"
        )
