"""Connections that wait for their next request, bounded so that no tenant takes the files of the others."""

from collections import OrderedDict
from collections.abc import Iterator

from couriermq.delivery.connection import Connection

ORIGIN_COUNT = 256

Origin = tuple[str, str, str, int]
"""Tenant, scheme, host and port. Connections are kept for each tenant: what one may reach another may not."""
Group = Origin | str | None
"""An origin, a tenant or, as None, everybody."""


class IdleConnections:
    """At most `total` connections, a quarter of them of one tenant; one more closes the one that was idle longest."""

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._each = max(total // 4, 1)
        self._lines: dict[Group, OrderedDict[Connection, Origin]] = {}

    def __len__(self) -> int:
        return len(self._lines.get(None, ()))

    def __iter__(self) -> Iterator[Connection]:
        """The one that has been idle longest comes first."""
        return iter(list(self._lines.get(None, ())))

    def put(self, origin: Origin, connection: Connection) -> None:
        for group, most in ((origin, ORIGIN_COUNT), (origin[0], self._each), (None, self._total)):
            line = self._lines.setdefault(group, OrderedDict())
            line[connection] = origin
            if len(line) > most:
                self.discard(next(iter(line)))

    def take(self, origin: Origin) -> Connection | None:
        """The open connection that was used last, so that those not needed grow old."""
        while line := self._lines.get(origin):
            connection = next(reversed(line))
            self._remove(connection)
            if connection.is_open:
                return connection
        return None

    def discard(self, connection: Connection) -> None:
        self._remove(connection)
        connection.close()

    def _remove(self, connection: Connection) -> None:
        origin = self._lines[None][connection]
        for group in (origin, origin[0], None):
            line = self._lines[group]
            del line[connection]
            if not line:
                del self._lines[group]
