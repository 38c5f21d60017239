"""Whether fresh draws, of another seed than the run's, are consistent with what is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scipy import stats

from smoothcert.audit.parts import parts_of, plainly
from smoothcert.audit.rebuild import refuse_other_data
from smoothcert.audit.redraw import LEVEL, Progress, certify_records, drawn_certificate
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.engine import Routed, Smoothed
from smoothcert.procedures import Budgeted, Certificate, Evaluate, Fixed, FixedDraws
from smoothcert.procedures.conversation import BOUND
from smoothcert.runs import Finding, Record, Run


def draw_fresh(
    run: Run,
    records: Sequence[Record],
    smoothed: Smoothed | Routed,
    data: Dataset,
    n: int,
    on_draws: Progress = lambda _: None,
) -> tuple[Finding, ...]:
    """Compare n fresh draws per input, of another seed than the run's, with what is recorded.

    Two exact tests per input, at 1e-3 over all inputs and tests (Bonferroni). Certified inputs: that p_A is at least
    p_lower (and p_B at most p_upper, where it is bounded) is not contradicted. Runs of `fixed`, `budgeted` and
    `evaluate`: the recorded votes for the chosen class and the fresh ones are of one probability (hypergeometric test).
    Votes of `staged` and `sequential` were stopped by looking at them, and are not compared: their shares are biased.
    """
    if smoothed.seed == run.config.seed:
        raise InputError(f"the seed of fresh draws must not be the run's, {smoothed.seed}; give another")
    refuse_other_data(run, data)
    level = LEVEL / max(1, 3 * len(records) * (1 if run.config.routing is None else 2))
    findings: list[Finding] = []
    for part in parts_of(run, records, smoothed):
        procedure = part.plain_procedure
        probe = Fixed(n0=1, n=n, bound=procedure.bound) if isinstance(procedure, FixedDraws) else Fixed(n0=1, n=n)
        unbiased = isinstance(procedure, FixedDraws | Budgeted | Evaluate)
        whose = f"{part.name}: " if part.name else ""
        for record, fresh in certify_records(part.records, part.smoothed, data, probe, on_draws):
            old = plainly(drawn_certificate(record))
            wrong = [*_contradicted(old, fresh, probe, level)]
            given_up = isinstance(procedure, Evaluate) and old.abstained and BOUND not in old.tallies
            wrong += _unlike(old, fresh, level) if unbiased and not given_up else []
            findings += [Finding("fresh draws", f"{whose}{sentence}", record.index) for sentence in wrong]
    return tuple(findings)


def _contradicted(old: Certificate, fresh: Certificate, probe: Fixed, level: float) -> Iterator[str]:
    """What a certificate claims about probabilities and fresh draws rule out."""
    if old.abstained:
        return
    tally = fresh.tallies[BOUND]
    if old.label >= tally.num_classes:
        yield f"class {old.label} is claimed, the model has {tally.num_classes}"
        return
    most = probe.bound.upper(tally, old.label, level)
    if most < old.p_lower:
        yield f"p_A is claimed to be at least {old.p_lower:.6f}, fresh draws show that it is at most {most:.6f}"
    if old.p_upper is not None:
        others = [c for c in range(tally.num_classes) if c != old.label]
        least = max(probe.bound.lower(tally, c, level / len(others)) for c in others)
        if least > old.p_upper:
            yield f"p_B is claimed to be at most {old.p_upper:.6f}, fresh draws show that it is at least {least:.6f}"


def _unlike(old: Certificate, fresh: Certificate, level: float) -> list[str]:
    """Whether recorded and fresh votes for the chosen class can be of one probability (both tails, exact)."""
    recorded, drawn = old.tallies.get(BOUND), fresh.tallies[BOUND]
    if recorded is None or recorded.num_classes != drawn.num_classes:
        return ["the recorded votes are not of this procedure"]
    label = old.candidate
    k, m = drawn.votes[label], recorded.votes[label]
    law = stats.hypergeom(drawn.draws + recorded.draws, k + m, drawn.draws)
    if 2 * min(law.cdf(k), law.sf(k - 1)) >= level:
        return []
    return [f"class {label} has {m} of {recorded.draws} votes as recorded, but {k} of {drawn.draws} fresh ones"]
