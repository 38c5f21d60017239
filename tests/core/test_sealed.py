"""Every changed byte is noticed."""

import pytest

from smoothcert.core.sealed import BLANK, is_sealed, seal

MARK = b'"digest": "'
CONTENT = b'{"weight": 0.5, "digest": "' + BLANK.encode() + b'", "more": "x"}'


def test_any_changed_missing_or_added_byte_is_noticed() -> None:
    sealed = seal(CONTENT, MARK)
    assert is_sealed(sealed, MARK)
    assert len(sealed) == len(CONTENT)
    for at in range(len(sealed)):
        for bit in range(8):
            assert not is_sealed(sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :], MARK)
        assert not is_sealed(sealed[:at] + sealed[at + 1 :], MARK)
        assert not is_sealed(sealed[:at] + b" " + sealed[at:], MARK)
        assert not is_sealed(sealed[:at], MARK)


@pytest.mark.parametrize("content", [b"", b"no mark", MARK, MARK + b"00", CONTENT + CONTENT], ids=repr)
def test_only_one_place_can_be_sealed(content: bytes) -> None:
    with pytest.raises(ValueError, match="once"):
        seal(content, MARK)
    assert not is_sealed(content, MARK)
