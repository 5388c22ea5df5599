"""Ids as this dialect shows and accepts them: 32 hex digits. Our own ids, and names of queues, are accepted as well."""

from couriermq.core.hex_ids import HEX_ID, hex_of, id_of
from couriermq.core.model import Queue, Tenant

DIALECT = "cloudflare"


def queue_id(queue: Queue) -> str:
    """The id that the queue has had at the vendor, where an alias keeps it; else its own as hex digits."""
    return queue.aliases.get(DIALECT) or hex_of(queue.id)


def account_id(tenant: Tenant) -> str:
    alias = tenant.aliases.get(DIALECT)
    return alias if alias is not None and HEX_ID.fullmatch(alias) else hex_of(tenant.id)


def is_same(asked: str, known: str) -> bool:
    """Whether a caller that asks for an id means the known one, in either form."""
    return asked in (known, hex_of(known))


__all__ = ["DIALECT", "HEX_ID", "account_id", "hex_of", "id_of", "is_same", "queue_id"]
