"""What a commit has to tell, to this node and to the others."""

from collections.abc import Mapping

Owed = dict[int, tuple[int, int, int]]
"""By queue: how many messages have become ready, how many are left of others, and from when the oldest is."""


class News:
    """Collected while a transaction is in the making."""

    def __init__(self) -> None:
        self.ready: dict[int, int] = {}
        self.left: dict[int, int] = {}
        """What was locked and is left: another node may have looked in vain meanwhile."""
        self.oldest: dict[int, int] = {}
        """By queue, when the oldest came, or became ready, of what can be had after the commit and could not before."""
        self.told: Owed = {}
        """What the commit tells other nodes."""
        self.passed: dict[int, int] = {}
        """Queues that time was applied to, and up to when."""
        self.dues: dict[int, int] = {}

    def counts(self) -> Mapping[str, int]:
        """How much has happened, by the kind of event."""
        raise NotImplementedError

    @property
    def reached(self) -> set[int]:
        """Queues of which something was locked."""
        raise NotImplementedError

    def due(self, key: int, at: int) -> None:
        """Something will happen to the queue at `at`."""
        self.dues[key] = min(at, self.dues.get(key, at))
