"""The control plane: tenants, queues, exchanges, bindings, listeners, credentials, and what dialects keep beside them.

All of it is small and read on every request, so it lives in memory; a change is on disk before it is seen.
"""

from couriermq.catalog.catalog import Catalog
from couriermq.catalog.credentials import hash_secret
from couriermq.catalog.memory import DEFAULT_TENANT
from couriermq.catalog.shelf import KINDS

__all__ = ["DEFAULT_TENANT", "KINDS", "Catalog", "hash_secret"]
