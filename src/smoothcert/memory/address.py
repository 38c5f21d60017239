"""Where a memory is: a file, or an address of PostgreSQL. A password in it is never shown, whatever it looks like."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from smoothcert.core.errors import InputError

# What libpq would take another way (a second @, a port that is no number) is not an address: its messages would quote
# the wrong half of a password.
_ADDRESS = re.compile(
    r"postgres(?:ql)?://"
    r"(?:[^/?@:\s]*(?::(?P<password>[^/?@\s]*))?@)?"
    r"(?P<hosts>(?:(?:\[[0-9a-fA-F:.%]*\]|[\w.%-]*)(?::\d*)?,?)*)"
    r"(?:/[^/?@\s]*)?"
    r"(?:\?(?P<options>[^@\s]*))?"
)
_SCHEME = re.compile(r"(?i)\s*([a-z][a-z0-9+.-]*:/|(jdbc:)?postgres(ql)?\S*:)")
_PAIRS = re.compile(
    r"(?i)(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options|connect_timeout)\s*="
)
_USER = re.compile(r":[^/]*@")
_SECRETS = ("password", "sslpassword")


@dataclass(frozen=True, repr=False)
class Address:
    """An address of PostgreSQL, postgresql://user@host/database; its `url` is for the driver and nobody else."""

    url: str

    @property
    def hosts(self) -> list[str]:
        """Which servers it names."""
        found = _ADDRESS.fullmatch(self.url)
        assert found is not None
        return [unquote(host) for host in re.findall(r"(?:^|,)\[?([^],:]*(?:(?<=\[)[^]]*)?)", found["hosts"]) if host]

    @property
    def secrets(self) -> list[str]:
        """What must not be shown: the password, as it is written and as it is meant."""
        found = _ADDRESS.fullmatch(self.url)
        assert found is not None
        written = [found["password"] or ""]
        written += [value for name, value in parse_qsl(found["options"] or "") if name in _SECRETS]
        return [secret for one in written for secret in {one, unquote(one)} if secret]


def parse_address(where: str | os.PathLike[str]) -> Address | None:
    """The address, or None for the path of a file. What is neither is refused, without being repeated.

    A connection string that is no URL, or a URL with a slip, would otherwise become a file with the password in its
    name.
    """
    text = os.fspath(where)
    if "\0" in text:
        raise InputError("memory must be the path of a file or an address, got a name with a zero byte; rename it")
    if isinstance(where, str) and _ADDRESS.fullmatch(text):
        if re.search("%(?![0-9a-fA-F]{2})|%00", text):
            raise InputError(
                "memory's address holds a % that begins no code such as %25; write the signs / ? # @ : % of a user or "
                "password as %2F %3F %23 %40 %3A %25"
            )
        return Address(text)
    plainly_a_path = text.startswith(("/", "./", "../", "~")) or not isinstance(where, str)
    if _SCHEME.match(text) or (not plainly_a_path and (_PAIRS.search(text) or _USER.search(text))):
        raise InputError(
            "memory must be the path of an SQLite file or an address postgresql://user@host/database, but it "
            "is neither (it is not repeated here: it may hold a password); write the signs / ? # @ : % of a user or "
            "password as %2F %3F %23 %40 %3A %25, and begin a path with ./"
        )
    return None
