"""JSON text in its compact form: what a limit on a JSON body measures."""

import re

_PARTS = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', re.DOTALL)
_ESCAPES = re.compile(
    rb"\\(?<!\\\\)(\\*)(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(/))"
)
_SHORT = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def compact(text: bytes) -> bytes:
    """Valid JSON text without blanks between its parts and without escapes that its strings do not need.

    Numbers stay as they are written. The result is never longer than the text.
    """
    return _PARTS.sub(_part, text)


def _part(match: re.Match[bytes]) -> bytes:
    string = match[1]
    if string is None:
        return b""
    return _ESCAPES.sub(_character, string) if b"\\" in string else string


def _character(match: re.Match[bytes]) -> bytes:
    before, high, low, single, slash = match.groups()
    if len(before) % 2:  # the last backslash is escaped itself: what follows is text, or a half of its own
        return match[0]
    if high is not None:
        return before + chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00).encode()
    if slash is not None:
        return before + slash
    code = int(single, 16)
    if code in _SHORT:
        return before + _SHORT[code]
    if code < 0x20 or 0xD800 <= code <= 0xDFFF:
        return match[0]  # it must be escaped, and has no shorter escape
    return before + chr(code).encode()
