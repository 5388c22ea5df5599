"""What one tenant may have and hold, and how often it may call."""

import msgspec


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one tenant. None stands for the server's default, and for no limit in that default itself."""

    max_queues: int | None = None
    """Queues and exchanges, which share their names."""
    max_listeners: int | None = None
    max_messages: int | None = None
    """Messages in any state in all queues of the tenant, copies for listeners and staged messages included."""
    max_message_bytes: int | None = None
    """The bytes of the same messages."""
    max_stages: int | None = None
    """Stages that were not published yet."""
    max_waiting_receivers: int | None = None
    """Receives that wait for a message at one time, on each node."""
    requests_per_second: float | None = None
    """Requests of all credentials together, on each node."""

    @property
    def limits_storage(self) -> bool:
        return self.max_messages is not None or self.max_message_bytes is not None


NAMES = tuple(field.name for field in msgspec.structs.fields(Quotas))


def with_defaults(own: Quotas, defaults: Quotas) -> Quotas:
    """The limits that hold for a tenant: its own where it has one, else the server's."""
    return Quotas(
        **{name: getattr(defaults, name) if getattr(own, name) is None else getattr(own, name) for name in NAMES}
    )
