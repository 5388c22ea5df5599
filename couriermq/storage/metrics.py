"""What the commits of a process have cost, counted alike by every engine."""

from collections import Counter
from collections.abc import Iterable
from typing import Self

from couriermq.telemetry.histogram import Histogram


class Metrics:
    """What the commits of this process have cost."""

    def __init__(self) -> None:
        self.commits = 0
        self.operations = 0
        self.quarantined = 0
        """Messages that were set aside because they are damaged."""
        self.damaged_events = 0
        """Events of the journal that cannot be read any more."""
        self.batch_sizes = Histogram((1, 2, 5, 10, 20, 50, 100, 200, 500, 1000))
        self.sync_seconds = Histogram((0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5))
        self.events: Counter[str] = Counter()
        """What has happened, by the kind of event."""

    @classmethod
    def sum_of(cls, several: "Iterable[Metrics]") -> Self:
        """What the commits of several shards have cost together."""
        whole = cls()
        for one in several:
            whole.commits += one.commits
            whole.operations += one.operations
            whole.quarantined += one.quarantined
            whole.damaged_events += one.damaged_events
            whole.batch_sizes.add(one.batch_sizes)
            whole.sync_seconds.add(one.sync_seconds)
            whole.events.update(one.events)
        return whole
