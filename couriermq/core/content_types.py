"""Four words for what a body is, and the MIME types under which messages cross between dialects."""

from functools import lru_cache

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
