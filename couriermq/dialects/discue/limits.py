"""What Discue allows, as data."""

import re

from couriermq.core.model import DAY, SECOND, QueueSettings

PER_PAGE = 10
PER_PAGE_MOST = 100
PAGE_MOST = 10_000
DEEPEST_PAGE = 10_000
"""How many messages of a queue a page may lie behind."""
EVENT_COUNT = 100
EVENT_COUNT_MOST = 1_000

MESSAGE_NAME_CHARS = 256
KEY_NAME_CHARS = 128
CLIENT_NAME_CHARS = 253
DOMAIN_ALIAS = re.compile(r"[A-Za-z0-9._/-]{1,127}", re.ASCII)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOSTNAME = re.compile(rf"(?=.{{4,253}}$){_LABEL}(?:\.{_LABEL})*", re.ASCII)
PORTS = (80, 443, *range(1_024, 65_536))

KEY_PREFIX_CHARS = 3
"""How much of a key is shown after it was made."""
MISSED_COUNT = 100
"""How many of the messages that a listener missed are listed; `missed_count` counts them all."""
RENAMED_COUNT = 1_000
"""How many of the messages that are in a queue may have another name than they were sent with."""

SCHEMA_BYTES = 65_536
SCHEMA_DEPTH = 20
SCHEMA_DIRECTIVES = 1_000
PATTERN_CHARS = 1_000

CHALLENGE_MS = 7 * DAY
CHALLENGE_PATH = "/.well-known/discue-challenge"
CHALLENGE_AGAIN_MS = 5 * SECOND
CHALLENGE_WAIT_SECONDS = 2.0
"""How long the answer about a domain waits for its challenge: clients give up after 10 seconds."""

CONTROL_REQUEST_BYTES = 1_048_576

NEW_QUEUE = QueueSettings(keep_delivered=False)
"""A queue as this dialect creates it: a message is done when every listener has it."""
