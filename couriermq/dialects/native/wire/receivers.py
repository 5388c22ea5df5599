"""Who consumes a queue, on the wire."""

import msgspec


class Receiver(msgspec.Struct, kw_only=True):
    """What a principal did in the queue in the last minute, and what it holds; its name is for those who manage."""

    id: str
    name: str | None
    received_per_second: float
    acked_per_second: float
    released_per_second: float
    expired_per_second: float
    leased_count: int
    oldest_lease_at: int | None
    last_received_at: int | None


class HeldLease(msgspec.Struct, kw_only=True):
    """A message that somebody holds; who and since when is null where that was too long ago."""

    seq: int
    message_id: str
    principal: str | None
    principal_name: str | None
    since: int | None
    expires_at: int
    attempt: int


class Receivers(msgspec.Struct, kw_only=True):
    """`leases` are the first hundred of `leased_count`."""

    at: int
    waiting_count: int
    principals: list[Receiver]
    leases: list[HeldLease]
    leased_count: int
