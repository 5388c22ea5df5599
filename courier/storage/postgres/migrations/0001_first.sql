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
    lease_no   INTEGER NOT NULL,   -- counts leases; with seq and queue it makes a receipt
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

-- Messages that wait just as they came, several in a row: packed when they are sent, opened when somebody takes one of
-- them. Only those are rows of their own in `message` that something has happened to, or that need an index. A row here
-- is added and removed, never changed: nothing of it stays behind but at one end of its indexes.
CREATE TABLE bundle (
    queue      INTEGER NOT NULL,
    seq        BIGINT NOT NULL,   -- the lowest in it
    last       BIGINT NOT NULL,   -- the highest
    entered_at BIGINT NOT NULL,   -- of the oldest
    newest_at  BIGINT NOT NULL,
    count      INTEGER NOT NULL,
    bytes      BIGINT NOT NULL,
    content    BYTEA NOT NULL,    -- see bundles.py
    PRIMARY KEY (queue, seq)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE bundle ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX bundle_age ON bundle (queue, entered_at, seq);

-- Messages that were taken out of bundles together and are leased under one number, which with the queue makes their
-- receipts. A single message that something happens to leaves it: acked ones are gone, others become rows of `message`.
CREATE TABLE held (
    queue      INTEGER NOT NULL,
    lease_no   INTEGER NOT NULL,
    due_at     BIGINT NOT NULL,   -- when the lease ends
    seq        BIGINT NOT NULL,   -- the lowest in it
    last       BIGINT NOT NULL,   -- the highest
    entered_at BIGINT NOT NULL,   -- of the oldest
    newest_at  BIGINT NOT NULL,
    count      INTEGER NOT NULL,
    bytes      BIGINT NOT NULL,
    facts      BYTEA NOT NULL,    -- see held.py
    contents   BYTEA NOT NULL,
    PRIMARY KEY (queue, lease_no)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE held ALTER COLUMN facts SET STORAGE EXTERNAL, ALTER COLUMN contents SET STORAGE EXTERNAL;
CREATE INDEX held_due ON held (queue, due_at);
CREATE INDEX held_age ON held (queue, entered_at, seq);

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

-- What a transaction of the data plane begins with: the control plane stays as it is until the transaction ends, and it
-- is the one that the node knows.
CREATE FUNCTION enter(space INTEGER, known BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(space, 0);
    IF coalesce((SELECT convert_from(value, 'UTF8')::bigint FROM meta WHERE name = 'catalog_version'), 0) <> known THEN
        RAISE EXCEPTION 'the node does not know the catalog as it is' USING ERRCODE = 'CQ001';
    END IF;
END $$;

-- What it ends with. Under one lock, which everybody needs and which goes with the commit, nobody else can take the same
-- offsets or add to the same figures; and because it is all one call, no packet travels while the lock is held.
CREATE FUNCTION seal(
    space INTEGER, keys INTEGER[], ready BIGINT[], delayed BIGINT[], leased BIGINT[], bytes BIGINT[], sent BIGINT[],
    acked BIGINT[], dead BIGINT[], counts INTEGER[], ats BIGINT[], events BYTEA[]
) RETURNS VOID LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(space, -1);
    IF cardinality(keys) > 0 THEN
        WITH present AS (
            SELECT k.queue, newest.place, coalesce(newest.ready, 0) + k.ready AS ready,
                   coalesce(newest.delayed, 0) + k.delayed AS delayed, coalesce(newest.leased, 0) + k.leased AS leased,
                   coalesce(newest.bytes, 0) + k.bytes AS bytes, coalesce(newest.sent, 0) + k.sent AS sent,
                   coalesce(newest.acked, 0) + k.acked AS acked, coalesce(newest.dead, 0) + k.dead AS dead
            FROM unnest($2, $3, $4, $5, $6, $7, $8, $9)
                AS k (queue, ready, delayed, leased, bytes, sent, acked, dead)
            LEFT JOIN LATERAL (
                SELECT ctid AS place, * FROM tally WHERE tally.queue = k.queue ORDER BY version DESC LIMIT 1
            ) AS newest ON TRUE
        ), past AS (
            DELETE FROM tally WHERE ctid = ANY (ARRAY(SELECT place FROM present WHERE place IS NOT NULL))
        )
        INSERT INTO tally (queue, ready, delayed, leased, bytes, sent, acked, dead)
        SELECT queue, ready, delayed, leased, bytes, sent, acked, dead FROM present;
    END IF;
    FOR n IN 1 .. cardinality($10) LOOP
        INSERT INTO journal (start, count, at, size, events)
        SELECT coalesce(
                   (SELECT start + count FROM journal ORDER BY start DESC LIMIT 1),
                   (SELECT convert_from(value, 'UTF8')::bigint << 45 FROM meta WHERE name = 'shard'),
                   0
               ),
               $10[n], $11[n], length($12[n]), $12[n];
    END LOOP;
END $$;

-- As many bundles of each queue as hold `most` messages, oldest first; what another node has locked is left to it.
CREATE FUNCTION claim_bundles(keys INTEGER[], most INTEGER[], since BIGINT[])
RETURNS TABLE (queue INTEGER, seq BIGINT, content BYTEA) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    waiting CURSOR (key INTEGER, at BIGINT) FOR
        SELECT seq, count, content FROM bundle WHERE queue = key AND entered_at >= at
        ORDER BY entered_at, seq FOR UPDATE SKIP LOCKED;
    held INTEGER;
    got INTEGER;
BEGIN
    FOR n IN 1 .. cardinality(keys) LOOP
        got := 0;
        queue := keys[n];
        OPEN waiting (keys[n], since[n]);
        WHILE got < most[n] LOOP
            FETCH waiting INTO seq, held, content;
            EXIT WHEN NOT FOUND;
            got := got + held;
            RETURN NEXT;
        END LOOP;
        CLOSE waiting;
    END LOOP;
END $$;
