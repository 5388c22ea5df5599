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
    gone       BLOB               -- a bit for each message, the first one's lowest
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
    crc        INTEGER NOT NULL,
    events     BLOB NOT NULL
);
INSERT INTO journal
SELECT start, count, at, next_seq, (SELECT coalesce(max(lease_no), 0) + 1 FROM message), 0, NULL, NULL, crc32(events), events
FROM journal_before;
DROP TABLE journal_before;

-- Journal rows that readers no longer see and that messages still wait in.
CREATE TABLE retained (start INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL);

-- Messages that were set aside because their journal row, or their payload, is damaged.
CREATE TABLE quarantine (
    last  INTEGER PRIMARY KEY,  -- the last seq of a pack, or that of a single message
    queue INTEGER NOT NULL,
    count INTEGER NOT NULL,
    start INTEGER,
    at    INTEGER NOT NULL
);
