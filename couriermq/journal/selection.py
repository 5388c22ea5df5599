"""Which events a reader wants, asked of events and of columns alike."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.events import AUDIT_KINDS, Entry, Event, target_of, without_body
from couriermq.journal import view
from couriermq.journal.view import View

if TYPE_CHECKING:
    import pyarrow as pa


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """No tenant, no queues or no kinds mean all of them; a queue is meant by its name or its id.

    `view` limits what the reader may see; None is a reader who may see everything.
    """

    tenant: str | None = None
    queues: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    view: View | None = None
    audit: bool = False
    """Whether a reader of one tenant gets its audit events; a reader of all tenants does."""
    arrivals: bool = False
    """Whether events that bring a message into one of `queues` from another queue are among them; not for columns."""
    bodies: bool = True
    """Whether the reader wants the bodies of sent messages; a reader of columns leaves out the column instead."""
    principal: str | None = None
    message_id: str | None = None
    seq: int | None = None
    """These three are not for columns, either."""

    @property
    def is_all(self) -> bool:
        return (
            self.tenant is None and not self.queues and not self.kinds and self.view is None and self.bodies
            and not self._is_about_one
        )  # fmt: skip

    @property
    def _is_about_one(self) -> bool:
        return self.principal is not None or self.message_id is not None or self.seq is not None

    def choose(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries that are asked for, each as the reader may see it."""
        if self.is_all:
            return entries
        chosen = [entry for entry in entries if self.takes(entry.event)]
        if self.view is not None:
            chosen = self.view.show(chosen, arrivals=self.arrivals)
        return chosen if self.bodies else list(map(without_body, chosen))

    def takes(self, event: Event) -> bool:
        return (
            (self.tenant is None or event.tenant == self.tenant)
            and (self._shows_audit or event.kind not in AUDIT_KINDS)
            and (not self.kinds or event.kind in self.kinds)
            and (not self.queues or self._is_about(event.queue_id, event.queue) or self._arrives(event))
            and (not self._is_about_one or self._is_of(event))
        )

    def _is_of(self, event: Event) -> bool:
        return (
            (self.principal is None or event.principal == self.principal)
            and (self.message_id is None or event.message_id == self.message_id)
            and (self.seq is None or event.seq == self.seq)
        )

    def _is_about(self, queue_id: str | None, queue: str | None) -> bool:
        return queue_id in self.queues or queue in self.queues

    def _arrives(self, event: Event) -> bool:
        target = target_of(event) if self.arrivals else None
        return target is not None and self._is_about(*target)

    @property
    def _shows_audit(self) -> bool:
        return self.audit or self.tenant is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `filter` looks at."""
        kinds = self.kinds or not self._shows_audit
        asked = ((self.tenant, ("tenant",)), (kinds, ("kind",)), (self.queues, ("queue_id", "queue")))
        names = [name for wanted, names in asked if wanted for name in names]
        return tuple(dict.fromkeys([*names, *(view.COLUMNS if self.view is not None else ())]))

    def filter(self, table: "pa.Table") -> "pa.Table":
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        def among(column: str, values: frozenset[str]) -> "pa.ChunkedArray":
            return pc.is_in(table.column(column), value_set=pa.array(sorted(values), pa.string()))

        masks = []
        if self.tenant is not None:
            masks.append(among("tenant", frozenset({self.tenant})))
        if not self._shows_audit:
            masks.append(pc.invert(among("kind", frozenset(AUDIT_KINDS))))
        if self.kinds:
            masks.append(among("kind", self.kinds))
        if self.queues:
            masks.append(pc.or_(among("queue", self.queues), among("queue_id", self.queues)))
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        chosen = table.filter(masks[0]) if masks else table
        return chosen if self.view is None else self.view.filter(chosen)
