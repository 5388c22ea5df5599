"""Cloudflare Queues: the REST API under /client/v4 and the queue binding of the Workers runtime."""

from courier.config import Settings
from courier.dialects.cloudflare.dialect import Cloudflare
from courier.web.call import Dialect


def dialect(settings: Settings) -> Dialect:
    """The dialect; what it needs of the settings it reads from the services of each call."""
    return Cloudflare()
