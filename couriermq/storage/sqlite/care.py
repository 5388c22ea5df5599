"""Looking after a data directory: is it sound, make a copy, bring a copy back. Works beside a running server."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec

from couriermq.core.chronicle import packed
from couriermq.core.events import Event
from couriermq.core.incarnations import Identity
from couriermq.core.lanes import LANE_SIZE
from couriermq.core.model import UNENDING
from couriermq.durable import make_folder, sync
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import (
    OLDER,
    Findings,
    JournalCheck,
    PackCheck,
    added_up,
    body_findings,
    claim_findings,
    fifo_keys,
    group_findings,
    journal_findings,
    quarantine_findings,
    tally_findings,
)
from couriermq.storage.contents import is_intact
from couriermq.storage.sqlite.checksums import checksum, damaged_rows, register
from couriermq.storage.sqlite.connection import (
    DATABASE,
    PRIVATE_FILE,
    connect,
    migrate,
    migrations,
    prepare,
)
from couriermq.storage.sqlite.contents import is_sound
from couriermq.storage.sqlite.identity import mark
from couriermq.storage.sqlite.identity import read as read_identity
from couriermq.storage.sqlite.loss import find_loss
from couriermq.storage.sqlite.mark import forget_mark
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import to_pack
from couriermq.storage.sqlite.trim import OLDEST

Progress = Callable[[int, int], None]
"""Called with (pages done, pages in all)."""

PAGES = 2_000
NO_END = 2**62
LOGS = (f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal")
RESTORED = "the data was restored from a backup"
_ROW_AT = "SELECT 1 FROM journal WHERE start = ?1 UNION ALL SELECT 1 FROM other_lane WHERE start = ?1"


def check(directory: Path) -> list[str]:
    """Every sign of damage, one sentence each; none means that no damage was found."""
    return examine(directory).all_damage


def examine(directory: Path) -> Findings:
    """Every sign of damage, and what was not looked at."""
    path = directory / DATABASE
    if not path.exists():
        return Findings(damage=[f"{directory} holds no {DATABASE}; is it the data directory?"])
    try:
        if loss := find_loss(directory):
            return Findings(damage=[f"commits that were accepted are lost: {loss}"])
        with closing(connect(path, read_only=True)) as db:
            db.execute("BEGIN")  # one moment for all the looks, whatever the server does meanwhile
            return _findings(db)
    except sqlite3.DatabaseError as error:
        return Findings(damage=[f"the database cannot be read: {error}; restore a backup with `courier restore`"])


def _findings(db: sqlite3.Connection) -> Findings:
    (present,) = db.execute("PRAGMA user_version").fetchone()
    if present < migrations()[-1][0]:  # the tables are those of an earlier version, until this one opens it
        return Findings(damage=_structure(db), not_checked=[OLDER])
    if damage := _structure(db) or [*_version(db), *_checksums(db)]:
        return Findings(damage=damage)
    damage = [*_tallies(db), *_packs(db), *_bodies(db), *_groups(db), *_claims(db)]
    return Findings(damage=damage) + _journal(db) + Findings(set_aside=_quarantine(db))


def _structure(db: sqlite3.Connection) -> list[str]:
    findings = [row[0] for row in db.execute("PRAGMA integrity_check(20)")]
    return [] if findings == ["ok"] else [f"the database is damaged: {finding}" for finding in findings]


def _version(db: sqlite3.Connection) -> list[str]:
    (present,) = db.execute("PRAGMA user_version").fetchone()
    newest = migrations()[-1][0]
    if present > newest:
        return [f"the schema is version {present}, newer than this Courier knows ({newest}); upgrade Courier"]
    return []


def _checksums(db: sqlite3.Connection) -> list[str]:
    return [f"{count} rows of table {table} are damaged" for table, count in damaged_rows(db)]


def _tallies(db: sqlite3.Connection) -> list[str]:
    counted = added_up(
        db.execute(
            "SELECT queue, sum(state = 1), sum(state = 0), sum(state = 2), sum(size) FROM message GROUP BY queue"
            " UNION ALL SELECT queue, sum((state = 1) * remaining), sum((state = 0) * remaining),"
            " sum((state = 2) * remaining), sum(bytes) FROM pack GROUP BY queue"
        )
    )
    return tally_findings(added_up(db.execute("SELECT queue, ready, delayed, leased, bytes FROM tally")), counted)


def _packs(db: sqlite3.Connection) -> list[str]:
    check = PackCheck()
    for row in db.execute("SELECT * FROM pack ORDER BY last"):
        check.add(to_pack(row))
    return check.findings


def _bodies(db: sqlite3.Connection) -> list[str]:
    """Messages whose bodies are not there or are damaged, and bodies that belong to no message."""
    (missing,) = db.execute(
        """
        SELECT (SELECT count(*) FROM message LEFT JOIN payload USING (seq)
                WHERE message.start IS NULL AND payload.seq IS NULL)
             + (SELECT count(*) FROM message LEFT JOIN journal USING (start)
                WHERE message.start IS NOT NULL AND journal.start IS NULL)
             + (SELECT coalesce(sum(remaining), 0) FROM pack LEFT JOIN journal USING (start)
                WHERE journal.start IS NULL)
        """
    ).fetchone()
    (orphaned,) = db.execute(
        "SELECT count(*) FROM payload LEFT JOIN message USING (seq)"
        " WHERE message.seq IS NULL OR message.start IS NOT NULL"
    ).fetchone()
    damaged = sum(not is_intact(body, crc) for body, crc in db.execute("SELECT body, crc FROM payload"))
    return body_findings(missing=missing, damaged=damaged, orphaned=orphaned)


def _groups(db: sqlite3.Connection) -> list[str]:
    (wrong,) = db.execute(
        """
        SELECT count(*) FROM fifo LEFT JOIN (
            SELECT queue, grp, min(seq) AS head, sum(state = 2) AS leased
            FROM message WHERE grp IS NOT NULL GROUP BY queue, grp
        ) AS real USING (queue, grp) WHERE real.head IS NOT fifo.head OR real.leased IS NOT fifo.leased
        """
    ).fetchone()
    documents = db.execute("SELECT document FROM record WHERE kind IN ('queue', 'doomed')")
    return group_findings(wrong + sum(_missing_groups(db, key) for key in fifo_keys(one for (one,) in documents)))


def _missing_groups(db: sqlite3.Connection, key: int) -> int:
    """How many groups have messages that nobody would ever be given."""
    (missing,) = db.execute(
        """
        SELECT count(*) FROM (SELECT DISTINCT queue, grp FROM message WHERE queue = ?) AS real
        LEFT JOIN fifo USING (queue, grp) WHERE fifo.head IS NULL
        """,
        (key,),
    ).fetchone()
    return int(missing)


def _claims(db: sqlite3.Connection) -> list[str]:
    parts = (part for (part,) in db.execute("SELECT seqs FROM claim_part"))
    seqs = (seq for (seq,) in db.execute("SELECT seq FROM message WHERE state = 2 AND due_at = ?", (UNENDING,)))
    packs = map(to_pack, db.execute("SELECT * FROM pack WHERE state = 2 AND due_at = ?", (UNENDING,)))
    return claim_findings(parts, seqs, packs)


def _journal(db: sqlite3.Connection) -> Findings:
    checks = _journal_checks(db)
    starts = msgspec.json.encode([start for check in checks for start in check.damaged]).decode()
    rows = db.execute(
        "SELECT start FROM message WHERE start IN (SELECT value FROM json_each(?1))"
        " UNION SELECT start FROM pack WHERE start IN (SELECT value FROM json_each(?1))",
        (starts,),
    )
    return journal_findings(checks, {start for (start,) in rows})


def _journal_checks(db: sqlite3.Connection) -> list[JournalCheck]:
    kept = db.execute(Q.read_meta, (OLDEST,)).fetchone()
    identity = read_identity(db)
    jumps = () if identity is None else identity.jumps
    check = JournalCheck({0: int(kept[0]) if kept else 0}, jumps)
    for row in db.execute(Q.journal_from, (0, -1)):
        check.add(row[0], row[1], row[-1], is_sound=is_sound(row))
    others = {lane: oldest for lane, oldest, _ in db.execute(Q.other_spans, {"size": LANE_SIZE})}
    other_check = JournalCheck(others, jumps)
    for row in db.execute(Q.other_from, (0, NO_END, -1)):
        other_check.add(row[0], row[1], row[-1], is_sound=is_sound(row))
    return [check, other_check]


def _quarantine(db: sqlite3.Connection) -> list[str]:
    return quarantine_findings(db.execute("SELECT queue, sum(count) FROM quarantine GROUP BY queue ORDER BY queue"))


def backup(directory: Path, target: Path, progress: Progress | None = None) -> Findings:
    """Write a consistent, checked copy into a new directory while the store goes on working; what is to be known of it.

    Damage that the store has set aside is in the copy too, and does not make it unsound.
    """
    source = directory / DATABASE
    if not source.exists():
        raise CannotOpen(f"{directory} holds no {DATABASE}; is it the data directory?")
    if target.exists() and any(target.iterdir()):
        raise CannotOpen(f"{target} is not empty; choose a new directory for the backup")
    make_folder(target, mode=0o700)
    _copy(source, target / DATABASE, progress)
    findings = examine(target)
    if wrong := findings.damage or _damaged_by_copying(directory, target, findings):
        raise CannotOpen(f"the copy in {target} is not sound: {wrong[0]}")
    sync(target)
    return findings


def _damaged_by_copying(directory: Path, target: Path, findings: Findings) -> list[str]:
    if not findings.set_aside:
        return []
    copied = _damaged_offsets(target / DATABASE) - _damaged_offsets(directory / DATABASE)
    with closing(connect(directory / DATABASE, read_only=True)) as db:  # which may have trimmed such a row meanwhile
        kept = {start for start in copied if db.execute(_ROW_AT, (start,)).fetchone()}
    return [f"the journal is damaged at offset {start}, unlike that of the source" for start in sorted(kept)]


def _damaged_offsets(path: Path) -> set[int]:
    with closing(connect(path, read_only=True)) as db:
        return {start for check in _journal_checks(db) for start in check.damaged}


def _copy(source: Path, path: Path, progress: Progress | None = None) -> None:
    """Write all that a database holds, what is still in its log included, into one new file with a mark."""
    path.touch(mode=PRIVATE_FILE)
    db, copy = connect(source, read_only=True), sqlite3.connect(path)
    try:
        # In one read transaction: the copy is of one moment, and a busy writer cannot make it start over.
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM meta").fetchone()
        db.backup(copy, pages=PAGES, progress=_report(progress))
        register(copy)
        mark(copy, RESTORED)
        copy.commit()
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
        db.close()
    sync(path)


def _report(progress: Progress | None) -> Callable[[int, int, int], None] | None:
    if progress is None:
        return None
    return lambda _status, remaining, total: progress(total - remaining, total)


def restore(source: Path, directory: Path) -> None:
    """Put a backup into an empty data directory; the server must not be running on it."""
    if damage := examine(source).damage:
        raise CannotOpen(f"the backup in {source} is not sound: {damage[0]}")
    lock = prepare(directory, database=False)
    try:
        if (directory / DATABASE).exists():
            raise CannotOpen(f"{directory} already holds data; restore into an empty directory")
        for name in LOGS:  # SQLite would take it for that of the restored database
            if (directory / name).exists():
                raise CannotOpen(f"{directory} holds {name}, which belongs to another database; move it away")
        forget_mark(directory)
        partial = directory / f"{DATABASE}.partial"
        for left in directory.glob(f"{partial.name}*"):
            left.unlink()
        _copy(source / DATABASE, partial)
        partial.rename(directory / DATABASE)
        sync(directory)
    finally:
        lock.release()


def identity_of(directory: Path) -> Identity | None:
    """Which store a directory holds; none where this version has not opened it yet."""
    if not (directory / DATABASE).exists():
        raise CannotOpen(f"{directory} holds no {DATABASE}; is it the data directory?")
    db = connect(directory / DATABASE, read_only=True)
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return read_identity(db) if version == migrations()[-1][0] else None
    finally:
        db.close()


def begin_incarnation(directory: Path, *, reason: str) -> None:
    """Have the next start begin a new incarnation; the server must not be running on the directory."""
    if not (directory / DATABASE).exists():
        raise CannotOpen(f"{directory} holds no {DATABASE}; is it the data directory?")
    lock = prepare(directory)
    try:
        db = connect(directory / DATABASE)
        try:
            migrate(db)
            mark(db, reason)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.close()
        sync(directory)
    finally:
        lock.release()


def continue_after(directory: Path, *, offset: int, next_seq: int, last: Event) -> None:
    """Have the journal go on behind an archive that somebody else has written, whose last event this is.

    That event stays in the journal, as the last commit always does: it holds the next offset and the next seq.
    """
    lock = prepare(directory)
    try:
        db = connect(directory / DATABASE)
        try:
            db.execute("BEGIN IMMEDIATE")
            if db.execute("SELECT 1 FROM tally WHERE ready + delayed + leased > 0").fetchone():
                raise CannotOpen(f"messages wait in {directory}, and the journal holds their bodies")
            forget_mark(directory)
            db.execute("DELETE FROM journal")
            events = packed([last])
            head = (offset - 1, 1, last.at, next_seq, 1, 0, None, None, crc32(events))
            db.execute(Q.insert_journal, (*head, checksum(head), events))
            db.execute(Q.put_meta, (OLDEST, offset - 1))
            db.execute("COMMIT")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.close()
        sync(directory)
    finally:
        lock.release()
