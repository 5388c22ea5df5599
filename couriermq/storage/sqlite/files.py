"""The files of the embedded store: opened together, compared with the mark, and closed in the right order."""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from couriermq.clock import fresh_key
from couriermq.core.incarnations import Identity
from couriermq.core.jumps import Jump
from couriermq.core.lifecycle.tally import Tally
from couriermq.core.receipts import Sealer
from couriermq.durable import sync
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import NOTE, refuse_part
from couriermq.storage.group_commit import GroupCommit
from couriermq.storage.sqlite import care, trim
from couriermq.storage.sqlite.checksums import sound
from couriermq.storage.sqlite.connection import DATABASE, DirectoryLock, connect, migrate
from couriermq.storage.sqlite.identity import mark as mark_for_new_incarnation
from couriermq.storage.sqlite.identity import next_numbers, open_identity
from couriermq.storage.sqlite.ledger import Ledger
from couriermq.storage.sqlite.log import Log
from couriermq.storage.sqlite.loss import Loss, find_loss, log_is_missing
from couriermq.storage.sqlite.mark import Mark
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.repair import recount

if TYPE_CHECKING:
    import threading

ACCEPTED = "commits at the end of the data were lost, and that was accepted"

log = logging.getLogger(__name__)


class Files:
    """The part of the store that opens and closes its files."""

    path: Path
    sealer: Sealer
    identity: Identity
    jumps: Sequence[Jump]
    now: Callable[[], int]
    _db: sqlite3.Connection
    _copier: sqlite3.Connection
    _reader: sqlite3.Connection
    _log: Log
    _lock: DirectoryLock
    _ledger: Ledger
    _commit: GroupCommit
    _accept_loss: bool
    _min_free_bytes: int
    _oldest_offset: int

    if TYPE_CHECKING:
        _reading: threading.Lock

        def _is_disk_low(self) -> bool: ...

        def _look_at_landings(self) -> None: ...

    def _open_files(self) -> None:
        path = self.path / DATABASE
        loss = self._find_loss()
        self._db = connect(path)
        migrate(self._db)
        refuse_part(str(self.path), self._db.execute(Q.read_meta, (NOTE,)).fetchone())
        mark = Mark(self.path)
        self._copier = connect(path)
        self._reader = connect(path, read_only=True)
        self._reader.execute(Q.read_meta, ("",)).fetchone()  # holds its lock from the first read on, see `close`
        key = self._seal_key()
        if loss is not None:
            self._go_on_after(loss)
        self.identity = open_identity(self._db, now=self.now)
        self.jumps = self.identity.jumps
        self.sealer = Sealer(key, self.identity.tags)
        self._load()
        # The log exists now, and stays for as long as a connection is open.
        self._log = Log(
            self._db, self._copier, path, mark=mark, spare_bytes=self._min_free_bytes, disk_is_low=self._is_disk_low
        )
        os.fsync(self._log.descriptor)
        sync(self.path)
        ledger = self._ledger
        mark.advance(
            self._log.position, next_offset=ledger.next_offset, next_seq=ledger.next_seq, next_lease=ledger.next_lease
        )
        mark.sync()

    def _find_loss(self) -> Loss | None:
        """What is missing of what was synced; raises CannotOpen unless that is accepted."""
        loss = find_loss(self.path)
        if loss is not None and not self._accept_loss:
            raise CannotOpen(
                f"the store in {self.path} has lost commits that were accepted: {loss}. Copy the directory, then"
                " restore a backup with `courier restore`, or start once with --accept-loss to go on with what is left"
            )
        if loss is None:
            refuse_missing_log(self.path)
        return loss

    def _go_on_after(self, loss: Loss) -> None:
        """The loss is accepted: what is left goes on as a new incarnation, as after a restore."""
        log.error("the loss of commits is accepted: %s", loss)
        mark_for_new_incarnation(self._db, ACCEPTED)

    def _seal_key(self) -> bytes:
        row = self._db.execute(Q.read_meta, ("seal_key",)).fetchone()
        key: bytes = sound("the key that seals receipts", row)[0] if row else fresh_key()
        self._db.execute(Q.put_meta, ("seal_key", key))  # also makes sure that there is a log to sync
        return key

    def _load(self) -> None:
        ledger = self._ledger
        self._load_tallies()
        ends = self._db.execute(Q.journal_ends).fetchone()
        if ends:
            oldest, ledger.next_offset, ledger.next_seq, ledger.next_lease = sound("the end of the journal", ends)
            self._oldest_offset = oldest
        elif numbers := next_numbers(self._db):
            ledger.next_offset, ledger.next_seq, ledger.next_lease = numbers
            self._oldest_offset = ledger.next_offset
        kept = self._db.execute(Q.read_meta, (trim.OLDEST,)).fetchone()
        if kept:
            self._oldest_offset = int(sound("the beginning of the journal", kept)[0])
        self._look_at_landings()
        for query in ("SELECT max(seq) FROM message", "SELECT max(last) FROM pack"):
            ledger.next_seq = max(ledger.next_seq, (self._db.execute(query).fetchone()[0] or 0) + 1)
        if not ends or not ledger.next_lease:  # a migration has written the store, and knows no lease
            (newest,) = self._db.execute("SELECT max(lease_no) FROM message").fetchone()
            ledger.next_lease = (newest or 0) + 1

    def _load_tallies(self) -> None:
        ledger, damaged = self._ledger, []
        for key, *figures, is_sound in self._db.execute(Q.read_tallies).fetchall():
            tally = ledger.tallies[key] = Tally(key, next_due=0)
            ledger.note(0, key)
            if is_sound:
                tally.figures = tuple(figures)
            else:
                damaged.append(key)
        if damaged:
            log.error("the figures of %d queues are damaged; their messages are counted anew", len(damaged))
            unit = ledger.unit()
            recount(self._db, unit, damaged)
            self._db.executemany(Q.put_tally, [(key, *ledger.tallies[key].figures) for key in damaged])

    async def close(self) -> None:
        await self._commit.close()
        self._log.finish()
        if self._commit.failure is None:
            self._log.mark.expect_no_log()
        self._copier.close()
        with self._reading:  # a reader that was cancelled still runs in its thread: close nothing under it
            if self._commit.failure is None:
                self._reader.close()
                self._db.close()
            else:
                # The last connection cannot write and so copies nothing of the log, of which nobody knows what is on
                # the disk. What the system remembers of it is dropped, so that the next start reads the disk.
                self._db.close()
                self._reader.close()
                os.posix_fadvise(self._log.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self._log.close()
        self._lock.release()


def refuse_missing_log(directory: Path) -> None:
    """Another program may have copied the log into the database, or lost it: raises CannotOpen if that is damaged."""
    if log_is_missing(directory) and (damage := care.examine(directory).damage):
        raise CannotOpen(f"the log of the store in {directory} is gone, and {damage[0]}; run `courier doctor`")
