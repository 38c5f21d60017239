"""A secret that draws follow from: its hash is published before the first draw, itself after the last one.

Noise is a public function of seed and input: whoever knows the seed can search for inputs whose draws are lucky, and
needs no luck then. A service therefore draws under a secret key. That the key was not chosen afterwards is shown by the
hash; that the votes are those of the key, by whoever draws again after it was revealed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.core.errors import InputError

SECRET_BYTES = 32


@dataclass(frozen=True, repr=False)
class SecretKey:
    """256 random bits, of which only the hash is shown."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise InputError(f"a secret key has {SECRET_BYTES} bytes, got {len(self.secret)}")

    @classmethod
    def new(cls) -> SecretKey:
        """From the operating system's randomness."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def from_hex(cls, text: str) -> SecretKey:
        """As `hex` wrote it."""
        try:
            return cls(bytes.fromhex(text))
        except ValueError:
            raise InputError(f"a secret key is {2 * SECRET_BYTES} hexadecimal digits, got something else") from None

    @property
    def hex(self) -> str:
        """The secret itself."""
        return self.secret.hex()

    @property
    def hash(self) -> str:
        """What is published: SHA-256, from which nobody finds the secret, and which has no second one."""
        return hashlib.sha256(b"smoothcert-key-1/" + self.secret).hexdigest()

    def seed(self, procedure: Mapping[str, Any]) -> int:
        """The seed of all draws for one procedure, 256 bits.

        Another alpha, n or radius gets other draws. So whoever has seen an answer, and asks about the same input with
        other settings because of it, gets a test that knows nothing of the first: each holds with its own alpha.
        """
        name = json.dumps(procedure, sort_keys=True, separators=(",", ":")).encode()
        return int.from_bytes(hashlib.shake_256(b"smoothcert-seed-1/" + self.secret + name).digest(32))

    def __repr__(self) -> str:
        return f"SecretKey(hash={self.hash!r})"
