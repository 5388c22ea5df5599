-- Bodies are stored once, in the journal row of the commit that sent them. Those of messages from before are copied
-- out, as are those whose journal row goes before they do.
ALTER TABLE payload ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE payload SET crc = crc32(body);
INSERT INTO payload (seq, body, crc) SELECT seq, body, crc32(body) FROM message WHERE body IS NOT NULL;
ALTER TABLE message DROP COLUMN body;
ALTER TABLE message ADD COLUMN start INTEGER;                        -- the journal row that holds the body, else `payload`
ALTER TABLE message ADD COLUMN position INTEGER NOT NULL DEFAULT 0;  -- among the events of that row
-- The turn of its last event. Nobody has counted the events of messages from before: they go on from 0, so that their
-- next event has turn 1 although it is not `sent`.
ALTER TABLE message ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

-- Messages of one commit and one queue that share one state: seqs `last - count + 1` to `last` without those in `gone`.
-- The last seq is the key, so that the rest of a pack keeps its row when the first messages are leased.
CREATE TABLE pack (
    last       INTEGER PRIMARY KEY,
    queue      INTEGER NOT NULL,
    state      INTEGER NOT NULL,  -- core.model.State
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    lease_no   INTEGER NOT NULL,
    entered_at INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    remaining  INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,  -- of the bodies of those that remain
    start      INTEGER NOT NULL,  -- the journal row that holds them
    position   INTEGER NOT NULL,  -- of the first among the events of that row
    turn       INTEGER NOT NULL,  -- of the last event of each message
    gone       BLOB,              -- a bit for each message, the first one's lowest
    crc        INTEGER NOT NULL   -- of all columns before it
);
CREATE INDEX pack_due ON pack (queue, state, due_at);
CREATE INDEX pack_age ON pack (queue, entered_at);

-- One or several rows a commit. `next_seq` and `next_lease` are the numbers to go on with after it.
ALTER TABLE journal RENAME TO journal_before;
CREATE TABLE journal (
    start      INTEGER PRIMARY KEY,
    count      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    next_seq   INTEGER NOT NULL,
    next_lease INTEGER NOT NULL,
    private    INTEGER NOT NULL,  -- 1: some bodies are not for readers of the journal
    first_seq  INTEGER,           -- of the messages that it holds the bodies of
    last_seq   INTEGER,
    crc        INTEGER NOT NULL,  -- of the events
    head       INTEGER NOT NULL,  -- of all columns before it
    events     BLOB NOT NULL
);
INSERT INTO journal
SELECT start, count, at, next_seq, next_lease, 0, NULL, NULL, crc32(events),
       crc(start, count, at, next_seq, next_lease, 0, NULL, NULL, crc32(events)), events
FROM journal_before, (SELECT coalesce(max(lease_no), 0) + 1 AS next_lease FROM message);
DROP TABLE journal_before;

-- Other lanes of the journal, of a store that came from PostgreSQL: for readers only, the first lane is written alone.
CREATE TABLE other_lane (
    start  INTEGER PRIMARY KEY,
    count  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    crc    INTEGER NOT NULL,  -- of the events
    head   INTEGER NOT NULL,  -- as that of a row of the journal with next_seq 1, next_lease 1 and private 0
    events BLOB NOT NULL
);

-- Journal rows that readers no longer see and that messages still wait in.
CREATE TABLE retained (
    start INTEGER PRIMARY KEY,
    kept  INTEGER              -- how many bodies are left in it; the others are blanked
);

-- Messages that were set aside because their row, their journal row or their payload is damaged.
CREATE TABLE quarantine (
    last  INTEGER PRIMARY KEY,  -- the last seq of a pack, or that of a single message
    queue INTEGER NOT NULL,
    count INTEGER NOT NULL,
    start INTEGER,
    at    INTEGER NOT NULL
);

-- Checksums of whole rows; see storage.sqlite.checksums.
ALTER TABLE message ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE message SET crc = crc(seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id, content_type,
    attributes, grp, trace, origin, death, start, position, turn);
ALTER TABLE record ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE record SET crc = crc(kind, tenant, id, slot, document);
ALTER TABLE tally ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE tally SET crc = crc(queue, ready, delayed, leased, bytes, sent, acked, dead);
ALTER TABLE dedup ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE dedup SET crc = crc(queue, dedup_id, until_at, seq, id);
ALTER TABLE job ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE job SET crc = crc(queue, name, epoch, done, opened_at);
ALTER TABLE claim ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE claim SET crc = crc(queue, job, number, wanted, complete, fate, count, bytes, claimed_at);
ALTER TABLE claim_part ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE claim_part SET crc = crc(queue, job, number, first, count, seqs);
ALTER TABLE publication ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE publication SET crc = crc(target, series, number, count, published_at);
ALTER TABLE landing ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE landing SET crc = crc(id, target, name, published_at, principal, keys);
ALTER TABLE meta ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET crc = crc(name, value);
ALTER TABLE stage ADD COLUMN parcels_crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stage ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE stage SET parcels_crc = crc32(parcels);
UPDATE stage SET crc = crc(target, name, part, chunk, count, staged_at, keys, parcels_crc);
