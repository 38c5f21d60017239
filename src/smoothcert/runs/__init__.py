"""A run on disk: frozen configuration, append-only records that hang together, resume. No torch."""

from smoothcert.runs.config import DataConfig, KeyConfig, ModelConfig, RoutingConfig, RunConfig, SubsetConfig
from smoothcert.runs.finding import Entry, Finding
from smoothcert.runs.record import Record
from smoothcert.runs.run import Run

__all__ = [
    "DataConfig",
    "Entry",
    "Finding",
    "KeyConfig",
    "ModelConfig",
    "Record",
    "RoutingConfig",
    "Run",
    "RunConfig",
    "SubsetConfig",
]
