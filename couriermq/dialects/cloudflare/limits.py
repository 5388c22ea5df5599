"""What Cloudflare Queues allows, as data; a kilobyte of the vendor's is 1,000 bytes."""

import re

from couriermq.core.limits import RESPONSE_BYTES
from couriermq.core.model import DAY, HOUR, SECOND, LateAck, QueueSettings

MESSAGE_BYTES = 128_000
BATCH_BYTES = 256_000
BATCH_COUNT = 100
PULL_COUNT = 100
PULL_DEFAULT = 5
PEEK_BROWSES = 10
"""Pages that a peek reads. The store looks at 10,000 messages for one, leased ones included."""
REF_COUNT = 1_000

DELAY_S = 86_400
RETENTION_S = (60, 1_209_600)
LEASE_MS = 12 * HOUR
RETRIES = 100
CONSUMER_BATCH = 100
CONSUMER_WAIT_MS = 60 * SECOND
CONSUMER_CONCURRENCY = 250

# A body of control characters grows six times when it is written as JSON: what is small enough must fit whatever
# its spelling, so that the vendor's own limit is the one that the caller hears of.
PUSH_REQUEST_BYTES = 6 * MESSAGE_BYTES + 4_096
BATCH_REQUEST_BYTES = 6 * BATCH_BYTES + 65_536
CONTROL_REQUEST_BYTES = 1_048_576
ACK_REQUEST_BYTES = 6 * RESPONSE_BYTES + CONTROL_REQUEST_BYTES
"""An ack may repeat the whole answer to a pull: clients send the messages back as they got them."""
QUERY_REQUEST_BYTES = 65_536

SUBSCRIPTIONS = 1_000
"""Event subscriptions of one account."""
SUBSCRIPTION_NAME_CHARS = 256
SUBSCRIPTION_EVENTS = 100
SUBSCRIPTION_SOURCE_BYTES = 4_096
CONSUMER_ID_CHARS = 128

QUEUE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)

DEFAULT_RETRIES = 3
DEFAULT_CONSUMER_BATCH = 10
DEFAULT_CONSUMER_WAIT_MS = 5 * SECOND
PER_PAGE = 20
PER_PAGE_MOST = 100

NEW_QUEUE = QueueSettings(
    lease_ms=30 * SECOND,
    retention_ms=4 * DAY,
    max_body_bytes=MESSAGE_BYTES,
    late_ack=LateAck.ACCEPT,
)
"""A queue as this dialect creates it; a consumer adds how often and how soon a message is tried again."""
