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
CREATE INDEX message_group ON message (queue, grp, (seq + 0)) WHERE grp IS NOT NULL;  -- see queries.sql

-- Messages that wait just as they came, several in a row: packed when they are sent, opened when somebody takes one of
-- them. Only those are rows of their own in `message` that something has happened to, or that need an index. A row here
-- is added and removed, never changed: nothing of it stays behind but at one end of its indexes. Facts of a kind stand
-- side by side, all of one width (see strips.py), so that messages can be cut out without looking at each.
CREATE TABLE bundle (
    queue      INTEGER NOT NULL,
    seq        BIGINT NOT NULL,   -- the lowest in it
    last       BIGINT NOT NULL,   -- the highest
    entered_at BIGINT NOT NULL,   -- of the oldest
    newest_at  BIGINT NOT NULL,
    count      INTEGER NOT NULL,
    bytes      BIGINT NOT NULL,
    seqs       BYTEA NOT NULL,    -- rising
    ids        BYTEA NOT NULL,
    ats        BYTEA NOT NULL,    -- when each came, never falling
    sizes      BYTEA NOT NULL,
    contents   BYTEA NOT NULL,    -- one after the other: see rows.Content
    PRIMARY KEY (queue, seq)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE bundle ALTER COLUMN contents SET STORAGE EXTERNAL, ALTER COLUMN ids SET STORAGE EXTERNAL,
                   ALTER COLUMN seqs SET STORAGE EXTERNAL, ALTER COLUMN ats SET STORAGE EXTERNAL,
                   ALTER COLUMN sizes SET STORAGE EXTERNAL;
CREATE INDEX bundle_age ON bundle (queue, entered_at, seq);

-- Messages that were taken out of bundles together and are leased under one number, which with the queue makes their
-- receipts. A single message that something happens to leaves it: acked ones are gone, others become rows of `message`.
-- Whoever knows the number says `queue + 0`, which only the primary key can help with: as long as the planner believes
-- the table to be empty, any index that begins with the queue seems as good, and leads past all that is dead.
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
    seqs       BYTEA NOT NULL,
    ids        BYTEA NOT NULL,
    ats        BYTEA NOT NULL,
    sizes      BYTEA NOT NULL,
    places     BYTEA,             -- which of the contents are theirs; all of them where nothing is said
    contents   BYTEA NOT NULL,
    PRIMARY KEY (lease_no, queue)
) WITH (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE held ALTER COLUMN contents SET STORAGE EXTERNAL, ALTER COLUMN ids SET STORAGE EXTERNAL,
                 ALTER COLUMN seqs SET STORAGE EXTERNAL, ALTER COLUMN ats SET STORAGE EXTERNAL,
                 ALTER COLUMN sizes SET STORAGE EXTERNAL;
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
DECLARE
    newest RECORD;
    start BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(space, -1);
    FOR n IN 1 .. cardinality(keys) LOOP
        SELECT ctid AS place, * FROM tally WHERE tally.queue = keys[n] ORDER BY version DESC LIMIT 1 INTO newest;
        IF FOUND THEN
            DELETE FROM tally WHERE ctid = newest.place;
            INSERT INTO tally (queue, ready, delayed, leased, bytes, sent, acked, dead) VALUES (
                keys[n], newest.ready + $3[n], newest.delayed + $4[n], newest.leased + $5[n], newest.bytes + $6[n],
                newest.sent + $7[n], newest.acked + $8[n], newest.dead + $9[n]
            );
        ELSE
            INSERT INTO tally (queue, ready, delayed, leased, bytes, sent, acked, dead)
            VALUES (keys[n], $3[n], $4[n], $5[n], $6[n], $7[n], $8[n], $9[n]);
        END IF;
    END LOOP;
    SELECT journal.start + journal.count FROM journal ORDER BY journal.start DESC LIMIT 1 INTO start;
    IF start IS NULL THEN
        start := coalesce((SELECT convert_from(value, 'UTF8')::bigint << 45 FROM meta WHERE name = 'shard'), 0);
    END IF;
    FOR n IN 1 .. cardinality(counts) LOOP
        INSERT INTO journal (start, count, at, size, events)
        VALUES (start, counts[n], ats[n], length(events[n]), events[n]);
        start := start + counts[n];
    END LOOP;
END $$;

-- As many bundles of each queue as hold `most` messages, oldest first; what another node has locked is left to it.
CREATE FUNCTION claim_bundles(keys INTEGER[], most INTEGER[], since BIGINT[])
RETURNS TABLE (queue INTEGER, seq BIGINT, seqs BYTEA, ids BYTEA, ats BYTEA, sizes BYTEA, contents BYTEA)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    waiting CURSOR (key INTEGER, at BIGINT) FOR
        SELECT count, seq, seqs, ids, ats, sizes, contents FROM bundle WHERE queue = key AND entered_at >= at
        ORDER BY entered_at, seq FOR UPDATE SKIP LOCKED;
    size INTEGER;
    got INTEGER;
BEGIN
    FOR n IN 1 .. cardinality(keys) LOOP
        got := 0;
        queue := keys[n];
        OPEN waiting (keys[n], since[n]);
        WHILE got < most[n] LOOP
            FETCH waiting INTO size, seq, seqs, ids, ats, sizes, contents;
            EXIT WHEN NOT FOUND;
            got := got + size;
            RETURN NEXT;
        END LOOP;
        CLOSE waiting;
    END LOOP;
END $$;

-- What usual orders begin with: acks remove what was leased together, each all of it, and receives take whole bundles
-- out, of each queue as many as hold `most` messages. What is left of these goes back with the same transaction.
--
-- It answers with rows of three kinds. 0: the ack at `place` is done, and this is what it was about. 1: a bundle of the
-- queue at `place`. 2: whoever got nothing out of the queue at `place` has to look at its single messages, too, or the
-- next bundle is too large to be leased with others.
CREATE FUNCTION take(
    space INTEGER, known BIGINT, ack_keys INTEGER[], ack_nos INTEGER[], ack_seqs BYTEA[], ack_ats BIGINT[],
    ack_untils BIGINT[], keys INTEGER[], most INTEGER[], most_bytes INTEGER, ready_since BIGINT[],
    bundle_since BIGINT[]
) RETURNS TABLE (
    kind INTEGER, place INTEGER, count INTEGER, bytes BIGINT, seqs BYTEA, ids BYTEA, ats BYTEA, sizes BYTEA,
    contents BYTEA
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    waiting CURSOR (key INTEGER, at BIGINT) FOR
        SELECT count, bytes, seqs, ids, ats, sizes, contents FROM bundle WHERE queue = key AND entered_at >= at
        ORDER BY entered_at, seq FOR UPDATE SKIP LOCKED;
    got INTEGER;
BEGIN
    PERFORM enter(space, known);
    kind := 0;
    FOR n IN 1 .. cardinality(ack_keys) LOOP
        DELETE FROM held WHERE queue + 0 = ack_keys[n] AND lease_no = ack_nos[n] AND held.seqs = ack_seqs[n]
            AND due_at + 0 > ack_ats[n] AND entered_at + 0 > ack_untils[n]
        RETURNING held.count, held.bytes, held.seqs, held.ids, held.sizes INTO count, bytes, seqs, ids, sizes;
        IF FOUND THEN
            place := n;
            RETURN NEXT;
        END IF;
    END LOOP;
    FOR n IN 1 .. cardinality(keys) LOOP
        place := n;
        IF EXISTS (SELECT FROM message WHERE queue = keys[n] AND state = 1 AND due_at >= ready_since[n]) THEN
            kind := 2;
            RETURN NEXT;
            CONTINUE;
        END IF;
        kind := 1;
        got := 0;
        OPEN waiting (keys[n], bundle_since[n]);
        WHILE got < most[n] LOOP
            FETCH waiting INTO count, bytes, seqs, ids, ats, sizes, contents;
            EXIT WHEN NOT FOUND;
            IF bytes > most_bytes THEN
                kind := 2;
                contents := NULL;
                RETURN NEXT;
                EXIT;
            END IF;
            DELETE FROM bundle WHERE CURRENT OF waiting;
            got := got + count;
            RETURN NEXT;
        END LOOP;
        CLOSE waiting;
    END LOOP;
END $$;
