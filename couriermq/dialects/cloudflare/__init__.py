"""Cloudflare Queues: the REST API under /client/v4 and the queue binding of the Workers runtime."""

from couriermq.config import Settings
from couriermq.dialects.cloudflare.dialect import Cloudflare
from couriermq.web.call import Dialect


def dialect(settings: Settings) -> Dialect:
    """The dialect; what it needs of the settings it reads from the services of each call."""
    return Cloudflare()
