"""What a receiver knows a message by: unique even where a sender uses an id again, and fit for a header.

An id that Courier has minted is unique already and is used as it is. An id that a sender has chosen is followed by a
digest of what tells its message from others with the same id: it is the same for every listener and every attempt, and
when the message is delivered again.
"""

import hashlib
import re

from couriermq.core.model import Message

ATTRIBUTE = "webhook-id"
"""The attribute of a listener's copy that holds it, where the id of the message will not do."""
PREFIX_CHARS = 64
DIGEST_BYTES = 10

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,256}", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_MINTED = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9-]{21}", re.ASCII)


def derived(message_id: str, *, sent_at: int, body: bytes, salt: bytes = b"") -> str:
    """For a message whose id its sender has chosen."""
    digest = hashlib.blake2b(message_id.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES)
    digest.update(b"\0%d\0%b\0" % (sent_at, salt))
    digest.update(body)
    return f"{_OTHER.sub('-', message_id[:PREFIX_CHARS])}_{digest.hexdigest()}"


def looks_minted(message_id: str) -> bool:
    """Whether an id has the form of those that Courier mints."""
    return _MINTED.fullmatch(message_id) is not None


def webhook_id(message: Message) -> str:
    """By which a receiver knows a message of an outbox."""
    noted = message.attributes.get(ATTRIBUTE)
    if isinstance(noted, str) and _PLAIN.fullmatch(noted):
        return noted
    if _PLAIN.fullmatch(message.id):
        return message.id
    return derived(message.id, sent_at=message.sent_at, body=message.body)
