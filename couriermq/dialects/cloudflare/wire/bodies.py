"""Bodies as a pull shows them, which is always a string."""

import base64
import binascii

import msgspec

from couriermq.core.content_types import BYTES, JSON, MIME, TEXT, V8, word_of
from couriermq.core.model import Message
from couriermq.core.surrogates import json_text

__all__ = ["BYTES", "JSON", "MIME", "TEXT", "V8", "from_base64", "word_of", "written"]


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
