"""Loads what decisions need and commits what they come to, in one SQLite database."""

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.flows import Flows
from couriermq.core.lifecycle.unit import Unit
from couriermq.storage.base import Signals
from couriermq.storage.contents import Cache, Damaged
from couriermq.storage.group_commit import Order, Turn, decide_all
from couriermq.storage.metrics import Metrics
from couriermq.storage.sqlite.changes import write
from couriermq.storage.sqlite.facts import Facts
from couriermq.storage.sqlite.ledger import Ledger
from couriermq.storage.sqlite.log import Log
from couriermq.storage.sqlite.queries import Q

MOST_DAMAGED = 1_000
"""Rows that one order sets aside before it gives up."""

log = logging.getLogger(__name__)


class Engine:
    """Used by the group commit, in the event loop."""

    def __init__(
        self,
        db: sqlite3.Connection,
        log: Log,
        ledger: Ledger,
        *,
        signals: Signals,
        sync: Callable[[int], None],
        set_aside: Callable[[Unit, Damaged], Any],
    ) -> None:
        self.durable_offset = ledger.next_offset
        self.cache = Cache()
        self.metrics = Metrics()
        self.facts = Facts(db, self.cache)
        self._db = db
        self._log = log
        self._ledger = ledger
        self._signals = signals
        self._sync = sync
        self._set_aside = set_aside
        self._announced: dict[int, int] = {}
        self._kinds: Counter[str] = Counter()
        self._flows: list[Flows] = []

    def commit(self, orders: Sequence[Order], turn: Turn) -> tuple[list[object], bool]:
        db, unit = self._db, self._ledger.unit()
        before = db.total_changes
        try:
            db.execute("BEGIN IMMEDIATE")
            results = self.decide(unit, decide_all(unit, orders, turn))
            unit.finish()
            write(db, unit)
            if tallies := unit.changed_tallies():
                db.executemany(Q.put_tally, tallies)
            db.execute("COMMIT")
            self._keep_contents(unit)
        except BaseException:
            try:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            finally:
                unit.undo()
                self.cache.roll_back(self._ledger.next_offset)
            raise
        self.cache.commit()
        self._keep(unit)
        return results, db.total_changes != before

    def commit_alone(self, order: Order) -> tuple[object, bool]:
        try:
            results, has_written = self._commit_undamaged(order)
        except (CourierError, Unavailable) as error:
            return error, False
        except sqlite3.Error as error:
            self._log.check(error)
            return Unavailable(_reason(error)), False
        except Exception as error:
            return error, False
        return results[0], has_written

    def _commit_undamaged(self, order: Order) -> tuple[list[object], bool]:
        """Carry out an order; messages that turn out to be damaged on the way are set aside first."""
        for _ in range(MOST_DAMAGED):
            try:
                return self.commit([order], Turn())
            except Damaged as damaged:
                error = damaged
                if not self.set_aside(damaged):
                    break
        raise Unavailable(f"{error}; run `courier doctor`")

    def set_aside(self, damaged: Damaged) -> bool:
        """Set damaged messages aside, in a commit of its own; whether anything could be done."""
        try:
            (count,), _ = self.commit([lambda unit: self._set_aside(unit, damaged)], Turn())
        except Damaged as other:  # a row was in the way of finding out which messages are damaged
            return damaged.table is None and other.table is not None and self.set_aside(other)
        log.error("%s: its messages are set aside; run `courier doctor`", damaged)
        if count is None:
            return False
        self.metrics.quarantined += count  # type: ignore[operator]
        return True

    def decide(self, unit: Unit, decision: Any) -> Any:
        """Answer what a decision needs until it has its outcome; anything else is an outcome already."""
        if not isinstance(decision, GeneratorType):
            return decision
        load = self.facts.load
        try:
            need = next(decision)
            while True:
                write(self._db, unit)
                self._keep_contents(unit)  # receivers of the same commit may want them
                need = decision.send(load(need))
        except StopIteration as end:
            return end.value

    def _keep_contents(self, unit: Unit) -> None:
        for start, content in unit.new_contents.items():
            self.cache.put(start, content)
        unit.new_contents.clear()

    def flush(self, unit: Unit) -> None:
        """Write what has been decided so far: called by each order that uses the database itself, because earlier
        orders of the same commit may have changes in memory."""
        write(self._db, unit)

    def _keep(self, unit: Unit) -> None:
        self._ledger.keep(unit)
        self._kinds.update(unit.kinds)
        if unit.flows:
            self._flows.append(unit.flows)
        for key, count in unit.ready.items():
            self._announced[key] = self._announced.get(key, 0) + count
        if unit.dues:
            self._signals.due(min(unit.dues)[0])

    # -- durability -------------------------------------------------------------------------------------------

    def sync(self) -> None:
        # Nothing is committed before this has returned, so that the log and the numbers stay as they are.
        log, ledger = self._log, self._ledger
        position = log.position
        self._sync(log.descriptor)
        log.mark.advance(
            position, next_offset=ledger.next_offset, next_seq=ledger.next_seq, next_lease=ledger.next_lease
        )

    def synced(self) -> None:
        if self.durable_offset != self._ledger.next_offset:
            self.durable_offset = self._ledger.next_offset
            self._signals.journaled()
        announced, self._announced = self._announced, {}
        for key, count in announced.items():
            self._signals.ready(key, count)
        if self._kinds:
            self.metrics.events.update(self._kinds)
            self._kinds.clear()
        flows, self._flows = self._flows, []
        for flow in flows:
            self._signals.happened(flow)
        self._log.keep_mark()

    def failed(self, reason: str) -> None:
        self._signals.failed(reason)

    def rest(self) -> None:
        try:
            self._log.tend()
        except (sqlite3.Error, OSError) as error:
            log.error("the log cannot be copied into the database: %s", error)
            self._log.check(error)


def _reason(error: sqlite3.Error) -> str:
    """What to tell a caller whose write SQLite refused."""
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_FULL":
            return "the disk is full; free some space, then try again"
        case name if name.startswith("SQLITE_READONLY"):
            return "the data directory is read-only; make it writable, then try again"
        case name if name.startswith("SQLITE_CORRUPT") or name == "SQLITE_NOTADB":
            return "the data is damaged; stop Courier and run `courier doctor`"
        case _:
            return f"the store cannot write: {error}"
