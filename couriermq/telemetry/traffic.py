"""Requests as they are counted: one lane a route, plain numbers, added up when somebody asks."""

from collections.abc import Collection

from couriermq.telemetry.histogram import Histogram

LATENCY_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class RouteTraffic:
    """The requests of one route: how many ended in each class of status, and how long they took."""

    __slots__ = ("dialect", "latency", "method", "pattern", "statuses")

    def __init__(self, dialect: str, method: str, pattern: str) -> None:
        self.dialect = dialect
        self.method = method
        self.pattern = pattern
        self.statuses = [0] * 6
        self.latency = Histogram(LATENCY_SECONDS)

    def observe(self, status: int, seconds: float) -> None:
        self.statuses[status // 100] += 1
        self.latency.observe(seconds)


class Traffic:
    """All lanes of a server."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, str, str], RouteTraffic] = {}
        self.connections: Collection[object] = ()
        self.in_hand: Collection[object] = ()
        """The open connections and the requests being answered, when there is a listener that knows."""

    def route(self, dialect: str, method: str, pattern: str) -> RouteTraffic:
        return self.lanes.setdefault((dialect, method, pattern), RouteTraffic(dialect, method, pattern))

    def unrouted(self, dialect: str) -> RouteTraffic:
        """Where requests to paths that do not exist are counted, one lane a dialect: strangers invent paths."""
        return self.route(dialect, "", "")
