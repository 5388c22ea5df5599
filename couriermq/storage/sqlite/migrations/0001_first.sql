-- Facts about the store itself, such as the key that seals receipts.
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- The control plane, one document a thing. A deleted queue stays as kind 'doomed' until its messages are gone.
CREATE TABLE record (
    kind     TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    slot     TEXT UNIQUE,
    document BLOB NOT NULL,
    PRIMARY KEY (kind, tenant, id)
) WITHOUT ROWID;

-- One row a live message; what changes often stands first, the body last. A large body stands in `payload`, because
-- an update rewrites the whole row.
CREATE TABLE message (
    seq          INTEGER PRIMARY KEY,
    queue        INTEGER NOT NULL,
    state        INTEGER NOT NULL,  -- core.model.State
    due_at       INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    lease_no     INTEGER NOT NULL,  -- counts leases for ever; with seq and queue it makes a receipt
    entered_at   INTEGER NOT NULL,
    own          INTEGER NOT NULL,  -- 1: it has its own retention, `discard_at`
    discard_at   INTEGER,
    sent_at      INTEGER NOT NULL,
    delay_ms     INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    given        INTEGER NOT NULL,  -- 1: the id is the sender's; 0: the seq can be read from it
    id           TEXT NOT NULL,
    content_type TEXT NOT NULL,
    attributes   BLOB,
    grp          TEXT,
    trace        TEXT,
    origin       INTEGER,           -- the seq of the message that this one copies to a listener
    death        BLOB,
    body         BLOB
);
CREATE INDEX message_due ON message (queue, state, due_at);
CREATE INDEX message_age ON message (queue, own, entered_at);
CREATE INDEX message_own ON message (queue, discard_at) WHERE own = 1;
CREATE INDEX message_given ON message (queue, id) WHERE given = 1;
CREATE INDEX message_origin ON message (origin) WHERE origin IS NOT NULL;
CREATE INDEX message_group ON message (queue, grp, seq) WHERE grp IS NOT NULL;

CREATE TABLE payload (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- The exact figures of a queue, written with every commit that changes them.
CREATE TABLE tally (
    queue   INTEGER PRIMARY KEY,
    ready   INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    leased  INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    sent    INTEGER NOT NULL,  -- ever
    acked   INTEGER NOT NULL,
    dead    INTEGER NOT NULL
);

-- One row a FIFO group that has messages: how many are leased, and from when on its head can be had (NULL: locked).
CREATE TABLE fifo (
    queue        INTEGER NOT NULL,
    grp          TEXT NOT NULL,
    leased       INTEGER NOT NULL,
    head         INTEGER NOT NULL,
    available_at INTEGER,
    PRIMARY KEY (queue, grp)
) WITHOUT ROWID;
CREATE INDEX fifo_available ON fifo (queue, available_at, head) WHERE available_at IS NOT NULL;

-- What FIFO queues have taken lately.
CREATE TABLE dedup (
    queue    INTEGER NOT NULL,
    dedup_id TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    id       TEXT NOT NULL,
    PRIMARY KEY (queue, dedup_id)
) WITHOUT ROWID;
CREATE INDEX dedup_until ON dedup (until_at);

-- One row a commit: its events start at offset `start`.
CREATE TABLE journal (
    start    INTEGER PRIMARY KEY,
    count    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    events   BLOB NOT NULL
);
