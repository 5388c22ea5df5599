"""Content types: Cloudflare's four words, the MIME types under which messages cross to other dialects, and back."""

import base64
import binascii
from functools import lru_cache

import msgspec

from couriermq.core.model import Message
from couriermq.core.surrogates import json_text

TEXT, JSON, BYTES, V8 = "text", "json", "bytes", "v8"

MIME = {
    TEXT: "text/plain; charset=utf-8",
    JSON: "application/json",
    BYTES: "application/octet-stream",
    V8: "application/x-v8",
}


@lru_cache(maxsize=1_024)
def word_of(content_type: str) -> str:
    """Which of the four words a MIME type is shown as."""
    essence = content_type.partition(";")[0].strip().lower()
    if essence == MIME[V8]:
        return V8
    if essence == "application/json" or essence.endswith("+json"):
        return JSON
    return TEXT if essence.startswith("text/") else BYTES


def written(message: Message, *, json_plain: bool) -> tuple[str, str | msgspec.Raw]:
    """The word for a message and its body as a pull shows it, which is always a string."""
    word = word_of(message.content_type)
    if word in {TEXT, JSON}:
        text = json_text(message.body)
        if text is None:
            word = BYTES  # another dialect called it text, but it is not UTF-8: only base64 carries it unharmed
        elif word == TEXT or json_plain:
            return word, text
    return word, base64.b64encode(message.body).decode()


def from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
