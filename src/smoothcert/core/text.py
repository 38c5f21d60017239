"""Text from elsewhere, made safe to show: names of files may hold anything, and addresses a password."""

from __future__ import annotations

import re
from unicodedata import category

HIDDEN = ("Cc", "Cs", "Cf", "Zl", "Zp")  # control characters, bytes that are no text, what turns, hides or breaks text

_PASSWORD = re.compile(r"(?i)(pass(?:word|wd)\s*(?:=|%3D)\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)")
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*:/{1,2})\S*@")
_USER = re.compile(r"(?<!\S)[^\s/:@]+:[^\s]*@(?=[^\s@])")


def visible(text: str, *, lines: bool = True) -> str:
    r"""The text with escapes such as \x1b in place of what a terminal would obey instead of showing.

    With `lines`, line ends and tabs stay as they are; without, they are escaped too: the text is one line.
    """
    if text.isprintable():
        return text
    return "".join(c if category(c) not in HIDDEN or (lines and c in "\n\t") else _escaped(c) for c in text)


def without_passwords(text: str) -> str:
    """A command or address without what could be a password in it, however it is written.

    Everything between the scheme and the last @ goes (a password may hold any sign), and the value of `password=`.
    """
    text = _PASSWORD.sub(r"\1***", text)
    text = _ADDRESS.sub(r"\1***@", text)
    return _USER.sub("***@", text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
