"""Votes and what they prove: tallies, confidence bounds, tests. No torch."""

from smoothcert.stats.binomial import ClopperPearson, lower_bound, top_two_p_value, upper_bound
from smoothcert.stats.bounded import EmpiricalBernstein, Hoeffding, SoftBound
from smoothcert.stats.bounds import BOUNDS, Bound
from smoothcert.stats.tally import Tally

__all__ = [
    "BOUNDS",
    "Bound",
    "ClopperPearson",
    "EmpiricalBernstein",
    "Hoeffding",
    "SoftBound",
    "Tally",
    "lower_bound",
    "top_two_p_value",
    "upper_bound",
]
