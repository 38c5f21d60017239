"""Certified regions that are kept: the rule, and its stores (SQLite, PostgreSQL). No torch."""

from smoothcert.memory.memory import Found, Memory
from smoothcert.memory.rule import Neighbour, Ruling, decide
from smoothcert.memory.store import Region

__all__ = ["Found", "Memory", "Neighbour", "Region", "Ruling", "decide"]
