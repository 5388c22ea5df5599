"""Four words for what a body is, and the MIME types under which messages cross between dialects."""

from functools import lru_cache

from couriermq.core.surrogates import text_of

TEXT, JSON, BYTES, V8 = "text", "json", "bytes", "v8"

MIME = {
    TEXT: "text/plain; charset=utf-8",
    JSON: "application/json",
    BYTES: "application/octet-stream",
    V8: "application/x-v8",
}


@lru_cache(maxsize=1_024)
def word_of(content_type: str) -> str:
    """Which of the four words describes a MIME type."""
    essence = content_type.partition(";")[0].strip().lower()
    if essence == MIME[V8]:
        return V8
    if essence == "application/json" or essence.endswith("+json"):
        return JSON
    return TEXT if essence.startswith("text/") else BYTES


def word_for(content_type: str, body: bytes) -> str:
    """The word for a message: a body that is called text or JSON but cannot be decoded is bytes."""
    word = word_of(content_type)
    return BYTES if word in {TEXT, JSON} and text_of(body) is None else word
