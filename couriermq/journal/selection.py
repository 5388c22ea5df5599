"""Which events a reader wants, asked of events and of columns alike."""

from typing import TYPE_CHECKING

import msgspec

from couriermq.core.events import Event

if TYPE_CHECKING:
    import pyarrow as pa


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """No tenant, no queues or no kinds mean all of them; a queue is meant by its name or its id."""

    tenant: str | None = None
    queues: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    @property
    def is_all(self) -> bool:
        return self.tenant is None and not self.queues and not self.kinds

    def takes(self, event: Event) -> bool:
        return (
            (self.tenant is None or event.tenant == self.tenant)
            and (not self.kinds or event.kind in self.kinds)
            and (not self.queues or event.queue in self.queues or event.queue_id in self.queues)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `filter` looks at."""
        asked = ((self.tenant, ("tenant",)), (self.kinds, ("kind",)), (self.queues, ("queue_id", "queue")))
        return tuple(name for wanted, names in asked if wanted for name in names)

    def filter(self, table: "pa.Table") -> "pa.Table":
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        def among(column: str, values: frozenset[str]) -> "pa.ChunkedArray":
            return pc.is_in(table.column(column), value_set=pa.array(sorted(values), pa.string()))

        masks = []
        if self.tenant is not None:
            masks.append(among("tenant", frozenset({self.tenant})))
        if self.kinds:
            masks.append(among("kind", self.kinds))
        if self.queues:
            masks.append(pc.or_(among("queue", self.queues), among("queue_id", self.queues)))
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        return table.filter(masks[0]) if masks else table
