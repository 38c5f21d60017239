"""Votes and what they prove: tallies, confidence bounds, tests. No torch."""

from smoothcert.stats.binomial import ClopperPearson, lower_bound, top_two_p_value, upper_bound
from smoothcert.stats.bounded import EmpiricalBernstein, Hoeffding
from smoothcert.stats.bounds import Bound
from smoothcert.stats.tally import Tally

BOUNDS: dict[str, type[Bound]] = {bound.name: bound for bound in (ClopperPearson, Hoeffding, EmpiricalBernstein)}

__all__ = [
    "BOUNDS",
    "Bound",
    "ClopperPearson",
    "EmpiricalBernstein",
    "Hoeffding",
    "Tally",
    "lower_bound",
    "top_two_p_value",
    "upper_bound",
]
