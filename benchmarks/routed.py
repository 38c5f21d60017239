"""What a router gains: routed ACR and certified accuracy beside each sigma alone and the oracle, on the same images.

    python benchmarks/routed.py --data mnist --router router/model.safetensors \\
        --model 0.25=a.safetensors --model 0.5=b.safetensors --model 1.0=c.safetensors --every 100 --out runs/routed

Members are trained by `smoothcert train RECIPE`, the router by `smoothcert train RECIPE --router --model ...`. Runs go
into folders of --out, and the same command again goes on with them; with --search, runs of the searches for each
input's own sigma stand beside it, by themselves (own classifiers) and through a memory (one classifier).

Below the table: which share of the oracle's headroom over the best single sigma is reached, and what the router's own
radius costs: the ACR if its choices held everywhere.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import smoothcert as sc
from smoothcert.analysis import Results, oracle
from smoothcert.analysis.measures import average_certified_radius, certified_shares, mean_draws, mean_seconds
from smoothcert.datasets import Subset
from smoothcert.noise import Noise
from smoothcert.runs import Record
from smoothcert.workflows.choices import NoiseChoice
from smoothcert.workflows.routing import models_of
from smoothcert.workflows.terminal import terminal_observer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--router", required=True)
    parser.add_argument("--router-sigma", type=float)
    parser.add_argument("--model", action="append", required=True, help="STRENGTH=MODEL")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--radii", default="0.25,0.5,1.0,1.5")
    parser.add_argument("--search", type=float, help="the strength from which searches begin: one of --model")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def certainly_chosen(record: Record) -> Record:
    """The record with the radius of the chosen member alone: what it would be if the choice held everywhere."""
    certificate = record.certificate
    if certificate is None or record.abstained:
        return record
    radius = Noise.from_description(certificate.noise).radius(certificate.p_lower, certificate.p_upper)
    return dataclasses.replace(record, radius=radius, claim=None)


def row(name: str, records: Sequence[Record], radii: Sequence[float]) -> str:
    """One line of the table."""
    shares = "".join(f"{100 * share.value:8.1f}" for share in certified_shares(records, radii))
    draws, seconds = mean_draws(records), mean_seconds(records)
    cost = f"{draws:12,.0f}" if draws is not None else " " * 12
    time = f"{seconds:9.3g}" if seconds is not None else ""
    return f"{name:<28}{average_certified_radius(records):8.4f}{shares}{cost}{time}"


def main() -> None:
    """Certify what is missing, and print."""
    given = arguments()
    radii = [float(radius) for radius in given.radii.split(",")]
    routed = models_of(given.model, given.router, strength=given.router_sigma)
    procedure, subset = sc.Fixed(n=given.n), Subset(every=given.every, limit=given.limit)
    found: dict[str, Results] = {}
    with terminal_observer() as observer:

        def certify(name: str, model: object, **options: object) -> None:
            run = sc.certify(
                model, given.data, out=given.out / name, procedure=procedure, subset=subset, backend=given.backend,
                workers=given.workers, data_root=given.data_root, observer=observer, **options,
            )  # type: ignore[arg-type]  # fmt: skip
            found[name] = run.results()

        for strength, model in routed.members.items():  # type: ignore[union-attr]
            certify(f"sigma-{strength:g}", model, noise=NoiseChoice(strength=strength))
        certify("routed", routed, noise=NoiseChoice())
        if given.search is not None:
            start = NoiseChoice(strength=given.search)
            model = routed.members[given.search]  # type: ignore[union-attr]
            certify("ddrs-own", model, noise=start, search=sc.DDRS())
            certify("bracket-own", model, noise=start, search=sc.Bracket())
            memory = given.out / "regions.sqlite"
            certify("bracket-memory", model, noise=start, search=sc.Bracket(), memory=memory)

    alone = [result for name, result in found.items() if name.startswith("sigma-")]
    best = max(average_certified_radius(result.records) for result in alone)
    ideal = oracle(alone)
    print(f"{'':<28}{'ACR':>8}{''.join(f'{radius:8g}' for radius in radii)}{'draws':>12}{'s':>9}")
    for name, result in found.items():
        print(row(name, result.records, radii))
    print(row("oracle of the sigmas", ideal.records, radii))
    certain = [certainly_chosen(record) for record in found["routed"].records]
    print(row("routed, choice certain", certain, radii))
    headroom = average_certified_radius(ideal.records) - best
    gained = average_certified_radius(found["routed"].records) - best
    without = average_certified_radius(certain) - best
    print(f"\nbest single sigma {best:.4f}; the oracle has {headroom:+.4f}, the router {gained:+.4f}", end="")
    print(f" ({100 * gained / headroom:.0f}% of it)" if headroom > 0 else "", end="")
    print(f", and {without:+.4f} if its choices were certain")
    print(found["routed"].note)


if __name__ == "__main__":
    main()
