"""Text from elsewhere, made safe to show. Names come from files and may hold anything."""

from __future__ import annotations

from unicodedata import category

HIDDEN = ("Cc", "Cs", "Cf")  # control characters, bytes that are no text, and what turns or hides text


def visible(text: str) -> str:
    """The text with escapes such as \\x1b in place of what a terminal would obey instead of showing."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) if category(c) in HIDDEN and c not in "\n\t" else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
