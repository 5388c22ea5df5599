-- Each commit changes the row of its lane and queue. While a transaction is held open anywhere, none of the row's dead
-- versions can be removed, and a change would read all of them to find the newest. So the key changes with every 64th
-- version: it is looked up from the highest part down, and never passes more than the versions of one part.
SET LOCAL lock_timeout = '500ms';  -- while this waits for a reader, all commits wait behind it
ALTER TABLE tally
    ADD COLUMN changes BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN part    BIGINT NOT NULL DEFAULT 0,  -- changes / 64
    DROP CONSTRAINT tally_pkey1,  -- it was made beside the one of the step before
    ADD PRIMARY KEY (queue, lane, part);

-- As before, but for the tallies. Nodes of the step before call it, too.
CREATE OR REPLACE FUNCTION commit_unit(
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
        UPDATE tally SET
            ready = ready + tallies[n + 3], delayed = delayed + tallies[n + 4], leased = leased + tallies[n + 5],
            bytes = bytes + tallies[n + 6], sent = sent + tallies[n + 7], acked = acked + tallies[n + 8],
            dead = dead + tallies[n + 9], changes = changes + 1, part = (changes + 1) / 64
        WHERE queue = tallies[n + 1] AND lane = tallies[n + 2] AND part = (
            SELECT part FROM tally WHERE queue = tallies[n + 1] AND lane = tallies[n + 2] ORDER BY part DESC LIMIT 1
        );
        IF NOT FOUND THEN
            INSERT INTO tally (queue, lane, ready, delayed, leased, bytes, sent, acked, dead)
            VALUES (tallies[n + 1], tallies[n + 2], tallies[n + 3], tallies[n + 4], tallies[n + 5], tallies[n + 6],
                    tallies[n + 7], tallies[n + 8], tallies[n + 9]);
        END IF;
    END LOOP;
    IF notice IS NOT NULL THEN
        PERFORM pg_notify(channel, notice);
    END IF;
    RETURN CASE WHEN wanted > 0 THEN take_seqs(space, wanted) END;
END $$;
