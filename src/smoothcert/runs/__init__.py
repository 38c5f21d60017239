"""A run on disk: frozen configuration, append-only records, resume. No torch."""

from smoothcert.runs.finding import Entry, Finding
from smoothcert.runs.record import Record
from smoothcert.runs.run import Run

__all__ = ["Entry", "Finding", "Record", "Run"]
