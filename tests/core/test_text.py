"""What a terminal would obey is shown instead."""

import pytest

from smoothcert.core.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runs/a ünïcode ℓ₂", "runs/a ünïcode ℓ₂"),
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("\x9b2J\x07\x7f\r", "\\x9b2J\\x07\\x7f\\r"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("not utf-8: \udcff", "not utf-8: \\udcff"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert shown.encode("utf-8")
