"""Lines that hang together: each names the digest of the line before, and ends with its own.

A line that was changed, removed, added or moved is noticed by whoever reads the file. It is a seal against accidents
and careless hands, not a signature: who rewrites every line from there on makes a chain that holds, and is left to the
audit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.runs.config import DIGEST_BYTES

HEAD = b'{"previous":"'
TAIL = b',"digest":"'
HEX = 2 * DIGEST_BYTES
CHANGED = "was changed after it was written"
UNCHAINED = "does not follow the line before it: a line was removed, added or moved"


@dataclass(frozen=True, slots=True)
class Line:
    """One complete line as it was found, without its end."""

    number: int  # from 1
    text: bytes
    wrong: str | None  # why it cannot stand here, or None

    @property
    def digest(self) -> str:
        """What the line says of itself; the next one must name it."""
        return self.text[-HEX - 2 : -2].decode("ascii", "replace")


def sealed(content: Mapping[str, Any], previous: str) -> bytes:
    """The line, with its end, that follows the digest `previous`."""
    body = json.dumps(content, separators=(",", ":")).encode()
    whole = HEAD + previous.encode() + b'",' + body[1:-1]
    return whole + TAIL + _digest(whole) + b'"}\n'


def chained(texts: Iterable[bytes], first: str) -> Iterator[Line]:
    """Each line with what is wrong about it; the first must name the digest `first`."""
    expected = first.encode()
    at = len(HEAD)
    for number, text in enumerate(texts, start=1):
        body, said = text[: -HEX - 2 - len(TAIL)], text[-HEX - 2 : -2]
        wrong = None
        shaped = text.startswith(HEAD) and text.endswith(b'"}') and text[len(body) : -HEX - 2] == TAIL
        if not shaped or _digest(body) != said:
            wrong = CHANGED
        elif text[at : at + HEX] != expected or text[at + HEX : at + HEX + 2] != b'",':
            wrong = UNCHAINED
        yield Line(number, text, wrong)
        expected = said


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).hexdigest().encode()
