"""Connections that wait for their next request: which is used next, and how many there may be."""

from couriermq.delivery import idle
from couriermq.delivery.connection import Connection
from couriermq.delivery.idle import IdleConnections, Origin


class Open(Connection):
    """As good as connected."""

    closed = False

    @property
    def is_open(self) -> bool:
        return not self.closed

    def close(self) -> None:
        self.closed = True


def origin(tenant: str, number: int = 0) -> Origin:
    return tenant, "https", f"host{number}", 443


def fill(kept: IdleConnections, tenant: str, count: int) -> list[Open]:
    """Connections to as many hosts."""
    made = [Open() for _ in range(count)]
    for number, connection in enumerate(made):
        kept.put(origin(tenant, number), connection)
    return made


def open_count(connections: list[Open]) -> int:
    return sum(connection.is_open for connection in connections)


def test_the_connection_that_was_used_last_is_taken_first() -> None:
    kept = IdleConnections(16)
    first, second = Open(), Open()
    for connection in (first, second):
        kept.put(origin("a"), connection)
    assert [kept.take(origin("a")) for _ in range(3)] == [second, first, None]


def test_a_connection_that_was_closed_meanwhile_is_not_taken() -> None:
    kept = IdleConnections(16)
    (connection,) = fill(kept, "a", 1)
    connection.close()
    assert kept.take(origin("a")) is None
    assert len(kept) == 0


def test_one_tenant_keeps_a_quarter_and_those_idle_longest_are_closed() -> None:
    kept = IdleConnections(16)
    other = fill(kept, "b", 2)
    many = fill(kept, "a", 10)
    assert [connection.is_open for connection in many] == [False] * 6 + [True] * 4
    assert open_count(other) == 2
    assert len(kept) == 6


def test_all_tenants_together_keep_no_more_than_the_total() -> None:
    kept = IdleConnections(16)
    each = {tenant: fill(kept, tenant, 4) for tenant in "abcdef"}
    assert {tenant: open_count(made) for tenant, made in each.items()} == {
        "a": 0, "b": 0, "c": 4, "d": 4, "e": 4, "f": 4,
    }  # fmt: skip
    assert len(kept) == 16


def test_one_receiver_keeps_no_more_than_its_part() -> None:
    kept = IdleConnections(16 * idle.ORIGIN_COUNT)
    made = [Open() for _ in range(idle.ORIGIN_COUNT + 1)]
    for connection in made:
        kept.put(origin("a"), connection)
    assert [number for number, connection in enumerate(made) if not connection.is_open] == [0]


def test_nothing_is_left_of_what_was_discarded() -> None:
    kept = IdleConnections(16)
    made = fill(kept, "a", 4)
    for connection in kept:
        kept.discard(connection)
    assert (open_count(made), len(kept), kept._lines) == (0, 0, {})
