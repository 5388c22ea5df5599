-- Facts about the store itself, such as the key that seals receipts.
CREATE TABLE meta (name TEXT PRIMARY KEY, value BYTEA NOT NULL);

-- The control plane, one document a thing. `version` says when it changed: a node that has seen version 7 asks for
-- what came after. What was deleted stays a while as `gone`, so that every node can hear of it; a deleted queue stays
-- as kind 'doomed' until its messages are gone, too.
CREATE TABLE record (
    kind     TEXT COLLATE "C" NOT NULL,
    tenant   TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    slot     TEXT COLLATE "C" UNIQUE,
    document BYTEA NOT NULL,
    version  BIGINT NOT NULL,
    gone     BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (kind, tenant, id)
);
CREATE INDEX record_version ON record (version);

CREATE SEQUENCE queue_key AS INTEGER;
CREATE SEQUENCE message_seq;

-- One row a live message. `content` is all that never changes (see rows.py): PostgreSQL keeps a large one in a place of
-- its own, which an update does not touch. What callers name is bytes, because text cannot hold every character.
CREATE TABLE message (
    seq        BIGINT PRIMARY KEY,
    queue      INTEGER NOT NULL,
    state      SMALLINT NOT NULL,  -- core.model.State
    attempts   INTEGER NOT NULL,
    lease_no   INTEGER NOT NULL,   -- counts leases for ever; with seq and queue it makes a receipt
    size       INTEGER NOT NULL,
    due_at     BIGINT NOT NULL,
    entered_at BIGINT NOT NULL,
    discard_at BIGINT,             -- only where it has its own retention
    origin     BIGINT,             -- the seq of the message that this one copies to a listener
    given      BOOLEAN NOT NULL,   -- the id is the sender's; else the seq can be read from it
    id         BYTEA NOT NULL,
    grp        BYTEA,
    death      BYTEA,
    content    BYTEA NOT NULL
) WITH (
    -- A lease writes the row anew: room for it on the same page. Dead rows are swept early and without a pause, because
    -- every claim has to step over them.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE message ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX message_ready ON message (queue, due_at, seq) WHERE state = 1;
CREATE INDEX message_due ON message (queue, state, due_at, seq) WHERE state <> 1;
CREATE INDEX message_age ON message (queue, entered_at, seq) WHERE discard_at IS NULL;
CREATE INDEX message_own_age ON message (queue, entered_at, seq) WHERE discard_at IS NOT NULL;
CREATE INDEX message_own_end ON message (queue, discard_at, seq) WHERE discard_at IS NOT NULL;
CREATE INDEX message_given ON message (queue, id, seq) WHERE given;
CREATE INDEX message_origin ON message (origin) WHERE origin IS NOT NULL;
CREATE INDEX message_group ON message (queue, grp, seq) WHERE grp IS NOT NULL;

-- The exact figures of a queue: its newest row. Each commit adds one and removes the one before; looked at from the
-- newest end it costs the same however many dead rows an open transaction holds back.
CREATE TABLE tally (
    queue   INTEGER NOT NULL,
    version BIGINT GENERATED ALWAYS AS IDENTITY,
    ready   BIGINT NOT NULL,
    delayed BIGINT NOT NULL,
    leased  BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    sent    BIGINT NOT NULL,  -- ever
    acked   BIGINT NOT NULL,
    dead    BIGINT NOT NULL,
    PRIMARY KEY (queue, version)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- One row a FIFO group that has messages: how many are leased, and from when on its head can be had (NULL: locked).
CREATE TABLE fifo (
    queue        INTEGER NOT NULL,
    grp          BYTEA NOT NULL,
    leased       INTEGER NOT NULL,
    head         BIGINT NOT NULL,
    available_at BIGINT,
    PRIMARY KEY (queue, grp)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX fifo_available ON fifo (queue, available_at, head) WHERE available_at IS NOT NULL;

-- What FIFO queues have taken lately.
CREATE TABLE dedup (
    queue    INTEGER NOT NULL,
    dedup_id BYTEA NOT NULL,
    until_at BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    id       BYTEA NOT NULL,
    PRIMARY KEY (queue, dedup_id)
);
CREATE INDEX dedup_until ON dedup (until_at);

-- One row a commit: its events start at offset `start`. Only ever added to at one end and trimmed at the other.
CREATE TABLE journal (
    start  BIGINT PRIMARY KEY,
    count  INTEGER NOT NULL,
    at     BIGINT NOT NULL,
    size   INTEGER NOT NULL,
    events BYTEA NOT NULL
);
ALTER TABLE journal ALTER COLUMN events SET STORAGE EXTERNAL;
CREATE INDEX journal_at ON journal (at, start);
