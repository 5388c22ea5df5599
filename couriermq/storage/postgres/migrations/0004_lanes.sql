-- Messages become packs and singles that point into the journal, as in the embedded engine, and each committing
-- connection has a lane of the journal of its own. What is renamed here is converted and dropped by `migrations.conversion`,
-- in the same transaction.
ALTER TABLE message RENAME TO message_before;
ALTER TABLE bundle RENAME TO bundle_before;
ALTER TABLE held RENAME TO held_before;
ALTER TABLE tally RENAME TO tally_before;
ALTER TABLE journal RENAME TO journal_before;
DROP FUNCTION enter;
DROP FUNCTION seal;
DROP FUNCTION take(
    INTEGER, BIGINT, INTEGER[], INTEGER[], BYTEA[], BIGINT[], BIGINT[], INTEGER[], INTEGER[], INTEGER, BIGINT[], BIGINT[]
);
DROP FUNCTION take(
    INTEGER, BIGINT, INTEGER[], INTEGER[], BYTEA[], BIGINT[], BIGINT[], INTEGER[], INTEGER[], INTEGER, BIGINT[],
    BIGINT[], BIGINT
);
DROP FUNCTION claim_bundles(INTEGER[], INTEGER[], BIGINT[]);
DROP FUNCTION claim_bundles(INTEGER[], INTEGER[], BIGINT[], BIGINT);

-- Messages of one commit and one queue that share one state: seqs `last - count + 1` to `last` without those in `gone`.
-- The last seq is the key, so that the rest of a pack keeps its row when the first messages are leased. Packs never
-- overlap, so that a seq leads to its pack.
CREATE TABLE pack (
    last       BIGINT PRIMARY KEY,
    queue      INTEGER NOT NULL,
    state      SMALLINT NOT NULL,  -- core.model.State
    due_at     BIGINT NOT NULL,
    attempts   INTEGER NOT NULL,
    lease_no   INTEGER NOT NULL,
    entered_at BIGINT NOT NULL,
    count      INTEGER NOT NULL,
    remaining  INTEGER NOT NULL,
    bytes      BIGINT NOT NULL,    -- of the bodies of those that remain
    start      BIGINT NOT NULL,    -- the journal row that holds them
    position   INTEGER NOT NULL,   -- of the first among the events of that row
    turn       INTEGER NOT NULL DEFAULT 0,
    gone       BYTEA               -- a bit for each message, the first one's lowest
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX pack_state ON pack (queue, state, due_at, last);
CREATE INDEX pack_entered ON pack (queue, entered_at, last);

-- One message with a state of its own. What callers name is bytes, because text cannot hold every character.
CREATE TABLE message (
    seq          BIGINT PRIMARY KEY,
    queue        INTEGER NOT NULL,
    state        SMALLINT NOT NULL,  -- core.model.State
    due_at       BIGINT NOT NULL,
    attempts     INTEGER NOT NULL,
    lease_no     INTEGER NOT NULL,
    entered_at   BIGINT NOT NULL,
    discard_at   BIGINT,             -- only where it has its own retention
    sent_at      BIGINT NOT NULL,
    delay_ms     BIGINT NOT NULL,
    size         INTEGER NOT NULL,
    given        SMALLINT NOT NULL,  -- 1: the id is the sender's; 0: the seq can be read from it
    id           BYTEA NOT NULL,
    content_type BYTEA NOT NULL,
    attributes   BYTEA,
    grp          BYTEA,
    trace        BYTEA,
    origin       BIGINT,             -- the seq of the message that this one copies to a listener
    death        BYTEA,
    start        BIGINT,             -- the journal row that holds the body, else `payload`
    position     INTEGER NOT NULL,   -- among the events of that row
    turn         INTEGER NOT NULL DEFAULT 0
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX message_state ON message (queue, state, due_at, seq);
CREATE INDEX message_entered ON message (queue, entered_at, seq) WHERE discard_at IS NULL;
CREATE INDEX message_own_entered ON message (queue, entered_at, seq) WHERE discard_at IS NOT NULL;
CREATE INDEX message_own_ends ON message (queue, discard_at, seq) WHERE discard_at IS NOT NULL;
CREATE INDEX message_by_given_id ON message (queue, id, seq) WHERE given = 1;
CREATE INDEX message_copies ON message (origin) WHERE origin IS NOT NULL;
CREATE INDEX message_line ON message (queue, grp, seq) WHERE grp IS NOT NULL;

-- Bodies that were copied out of their journal rows.
CREATE TABLE payload (seq BIGINT PRIMARY KEY, body BYTEA NOT NULL, crc BIGINT NOT NULL);
ALTER TABLE payload ALTER COLUMN body SET STORAGE EXTERNAL;

-- One or several rows a commit: its events start at offset `start`, which says the lane (see core.lanes).
CREATE TABLE journal (
    start     BIGINT PRIMARY KEY,
    count     INTEGER NOT NULL,
    at        BIGINT NOT NULL,
    private   BOOLEAN NOT NULL,  -- some bodies are not for readers of the journal
    first_seq BIGINT,            -- of the messages that it holds the bodies of
    last_seq  BIGINT,
    crc       BIGINT NOT NULL,
    events    BYTEA NOT NULL
) WITH (toast_tuple_target = 8160);
ALTER TABLE journal ALTER COLUMN events SET STORAGE EXTERNAL;
CREATE INDEX journal_by_time ON journal (at, start);

-- The lanes that have been used, by global number, and the oldest offset of each that readers see.
CREATE TABLE lane (number INTEGER PRIMARY KEY, oldest BIGINT NOT NULL);

-- Journal rows that readers no longer see and that messages still wait in; also those that came with a queue from
-- another shard.
CREATE TABLE retained (
    start     BIGINT PRIMARY KEY,
    first_seq BIGINT NOT NULL,
    last_seq  BIGINT NOT NULL,
    kept      INTEGER            -- bodies that it has been rewritten with; unknown until then
);

-- Messages that were set aside because their journal row, or their payload, is damaged.
CREATE TABLE quarantine (
    last  BIGINT PRIMARY KEY,  -- the last seq of a pack, or that of a single message
    queue INTEGER NOT NULL,
    count INTEGER NOT NULL,
    start BIGINT,
    at    BIGINT NOT NULL
);

-- What the commits of one lane have added to the figures of a queue; the sum over all lanes is exact. Only the owner
-- of the lane writes them. Lane -1 has what was there before lanes, and what came with a queue from another shard.
CREATE TABLE tally (
    queue   INTEGER NOT NULL,
    lane    INTEGER NOT NULL,
    ready   BIGINT NOT NULL,
    delayed BIGINT NOT NULL,
    leased  BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    sent    BIGINT NOT NULL,  -- ever
    acked   BIGINT NOT NULL,
    dead    BIGINT NOT NULL,
    PRIMARY KEY (queue, lane)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- A value is the first of ten thousand numbers for leases, which hold 31 bits.
CREATE SEQUENCE lease_block AS INTEGER INCREMENT 10000 MINVALUE 1 MAXVALUE 2147470001 CYCLE;

-- Packs that are ready, longest ready first, until they hold `most` messages; what another has locked is left to it.
CREATE FUNCTION ready_packs(key INTEGER, upto BIGINT, most BIGINT) RETURNS SETOF pack LANGUAGE plpgsql AS $$
DECLARE
    line CURSOR FOR
        SELECT * FROM pack WHERE queue = key AND state = 1 AND due_at <= upto ORDER BY due_at, last
        FOR UPDATE SKIP LOCKED;
    next pack;
    got BIGINT := 0;
BEGIN
    OPEN line;
    WHILE got < most LOOP
        FETCH line INTO next;
        EXIT WHEN NOT FOUND;
        got := got + next.remaining;
        RETURN NEXT next;
    END LOOP;
    CLOSE line;
END $$;

-- The first of `wanted` seqs in a row. They are given out at once, also if the transaction fails.
CREATE FUNCTION take_seqs(space INTEGER, wanted BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    first BIGINT;
BEGIN
    PERFORM pg_advisory_lock(space, -6);
    first := nextval('message_seq');
    IF wanted > 1 THEN
        PERFORM setval('message_seq', first + wanted - 1);
    END IF;
    PERFORM pg_advisory_unlock(space, -6);
    RETURN first;
END $$;

-- The end of every transaction of the data plane. All of it is one call, so that no packet travels while the catalog's
-- lock is held: nobody changes the control plane between the check of its version and the commit. Numbers of rows come
-- as flat lists: journal (start, count, at, private, first_seq or -1, last_seq or -1, crc), packs (the columns from
-- `last` to `turn`), tallies (queue, lane and what is added
-- to the figures).
CREATE FUNCTION commit_unit(
    space INTEGER, known BIGINT, rows BIGINT[], bodies BYTEA[], packs BIGINT[], tallies BIGINT[], channel TEXT,
    notice TEXT, wanted BIGINT
) RETURNS BIGINT LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    n INTEGER;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(space, 0);
    IF coalesce((SELECT convert_from(value, 'UTF8')::bigint FROM meta WHERE name = 'catalog_version'), 0) <> known THEN
        RAISE EXCEPTION 'the node does not know the catalog as it is' USING ERRCODE = 'CQ001';
    END IF;
    n := 0;
    FOR i IN 1 .. cardinality(bodies) LOOP
        INSERT INTO journal (start, count, at, private, first_seq, last_seq, crc, events) VALUES (
            rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = 1, nullif(rows[n + 5], -1), nullif(rows[n + 6], -1),
            rows[n + 7], bodies[i]
        );
        n := n + 7;
    END LOOP;
    FOR i IN 0 .. cardinality(packs) / 13 - 1 LOOP
        n := 13 * i;
        INSERT INTO pack (last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start,
                          position, turn)
        VALUES (packs[n + 1], packs[n + 2], packs[n + 3], packs[n + 4], packs[n + 5], packs[n + 6], packs[n + 7],
                packs[n + 8], packs[n + 9], packs[n + 10], packs[n + 11], packs[n + 12], packs[n + 13]);
    END LOOP;
    FOR i IN 0 .. cardinality(tallies) / 9 - 1 LOOP
        n := 9 * i;
        INSERT INTO tally (queue, lane, ready, delayed, leased, bytes, sent, acked, dead)
        VALUES (tallies[n + 1], tallies[n + 2], tallies[n + 3], tallies[n + 4], tallies[n + 5], tallies[n + 6],
                tallies[n + 7], tallies[n + 8], tallies[n + 9])
        ON CONFLICT (queue, lane) DO UPDATE SET
            ready = tally.ready + excluded.ready, delayed = tally.delayed + excluded.delayed,
            leased = tally.leased + excluded.leased, bytes = tally.bytes + excluded.bytes,
            sent = tally.sent + excluded.sent, acked = tally.acked + excluded.acked, dead = tally.dead + excluded.dead;
    END LOOP;
    IF notice IS NOT NULL THEN
        PERFORM pg_notify(channel, notice);
    END IF;
    RETURN CASE WHEN wanted > 0 THEN take_seqs(space, wanted) END;
END $$;

-- What a change of the control plane begins with; the records and the commit follow in the same round trip.
CREATE FUNCTION change_catalog(space INTEGER, known BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(space, 0);
    IF coalesce((SELECT convert_from(value, 'UTF8')::bigint FROM meta WHERE name = 'catalog_version'), 0) <> known THEN
        RAISE EXCEPTION 'the node does not know the catalog as it is' USING ERRCODE = 'CQ001';
    END IF;
    INSERT INTO meta (name, value) VALUES ('catalog_version', convert_to((known + 1)::text, 'UTF8'))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
END $$;
