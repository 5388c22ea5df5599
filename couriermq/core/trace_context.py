"""The trace context that a message carries from its sender to those who receive it."""

import re

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def traceparent_of(text: str | None) -> str | None:
    """The W3C `traceparent` that a text is; one that is not well formed is as good as none, says the W3C."""
    return text if text is not None and _TRACEPARENT.fullmatch(text) else None
