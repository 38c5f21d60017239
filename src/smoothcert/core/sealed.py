"""A digest inside the bytes that it is of: whoever reads them knows whether any byte was changed.

It guards against damage, not against forgery: who changes the bytes on purpose can make a digest for them.
"""

from __future__ import annotations

import hashlib

BLANK = "0" * 64
"""What stands in the place of the digest while it is computed."""


def seal(content: bytes, mark: bytes) -> bytes:
    """The content with its SHA-256 in the place of `BLANK`, which follows `mark`; the mark stands there once."""
    at = _place(content, mark)
    if at is None or content[at : at + len(BLANK)] != BLANK.encode():
        raise ValueError(f"the content must hold {mark!r} once, and {len(BLANK)} zeros after it")
    return content[:at] + hashlib.sha256(content).hexdigest().encode() + content[at + len(BLANK) :]


def is_sealed(content: bytes, mark: bytes) -> bool:
    """Whether these are the bytes that `seal` gave, every one of them."""
    at = _place(content, mark)
    if at is None:
        return False
    digest = hashlib.sha256(memoryview(content)[:at])
    digest.update(BLANK.encode())
    digest.update(memoryview(content)[at + len(BLANK) :])
    return content[at : at + len(BLANK)] == digest.hexdigest().encode()


def _place(content: bytes, mark: bytes) -> int | None:
    """Where the digest is."""
    at = content.find(mark)
    if at < 0 or content.find(mark, at + 1) >= 0:
        return None
    return at + len(mark)
