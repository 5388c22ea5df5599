"""discue.io: queues whose messages are pushed to listeners, in both generations of its API."""

from couriermq.config import Settings
from couriermq.dialects.discue.dialect import Discue


def dialect(settings: Settings) -> Discue:
    """The dialect; what it needs of the settings it reads from the services of each call."""
    return Discue()
