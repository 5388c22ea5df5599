"""Ids as this dialect shows and accepts them: 32 hex digits. Our own ids, and names of queues, are accepted as well."""

from couriermq.core.hex_ids import DIALECT, HEX_ID, hex_of, id_of, queue_hex, tenant_hex
from couriermq.core.model import Queue, Tenant


def queue_id(queue: Queue) -> str:
    return queue_hex(queue.id, queue.aliases)


def account_id(tenant: Tenant) -> str:
    return tenant_hex(tenant.id, tenant.aliases)


def is_same(asked: str, known: str) -> bool:
    """Whether a caller that asks for an id means the known one, in either form."""
    return asked in (known, hex_of(known))


__all__ = ["DIALECT", "HEX_ID", "account_id", "hex_of", "id_of", "is_same", "queue_id"]
