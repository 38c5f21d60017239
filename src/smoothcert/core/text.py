"""Text from outside, made fit to be shown: names of files and classes, addresses with a password."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?i)(pass(?:word|wd)\s*(?:=|%3D)\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)")
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*:/{1,2})\S*@")
_USER = re.compile(r"(?<!\S)[^\s/:@]+:[^\s]*@(?=[^\s@])")


def printable(text: str) -> str:
    r"""One line that is safe on a terminal and in any encoding: what is not printable is written as `\x1b`, `\n`, ...

    A file name may hold escape sequences, line ends and bytes that are no text.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def visible(text: str) -> str:
    """A text of several lines, each of them safe on a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def without_passwords(text: str) -> str:
    """A command or address without what could be a password in it, however it is written.

    Everything between the scheme and the last @ goes (a password may hold any sign), and the value of `password=`.
    """
    text = _PASSWORD.sub(r"\1***", text)
    text = _ADDRESS.sub(r"\1***@", text)
    return _USER.sub("***@", text)
