"""The one sentence for files that are not as they were written."""

from __future__ import annotations

from pathlib import Path

from smoothcert.core.errors import InputError

# What reading JSON that was made by somebody else can raise.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError)

AGAIN = "restore the file from a copy, or certify into a new folder"


def damaged(file: Path, what: str, way_out: str = AGAIN) -> InputError:
    """The refusal of a file: what is wrong with it, and what to do."""
    return InputError(f"{file} was damaged or changed: {what}; {way_out}")
