-- Receives that are limited in bytes. The functions without a budget stay for nodes of the version before.

-- As many bundles of each queue as hold `most` messages, oldest first, of all queues together at most about `budget`
-- bytes. What another node has locked is left to it. The first bundle of a queue beyond the budget comes without its
-- contents, to say that the queue has more.
CREATE FUNCTION claim_bundles(keys INTEGER[], most INTEGER[], since BIGINT[], budget BIGINT)
RETURNS TABLE (queue INTEGER, seq BIGINT, seqs BYTEA, ids BYTEA, ats BYTEA, sizes BYTEA, contents BYTEA)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    waiting CURSOR (key INTEGER, at BIGINT) FOR
        SELECT count, seq, seqs, ids, ats, sizes, contents FROM bundle WHERE queue = key AND entered_at >= at
        ORDER BY entered_at, seq FOR UPDATE SKIP LOCKED;
    size INTEGER;
    got INTEGER;
    spent BIGINT := 0;
BEGIN
    FOR n IN 1 .. cardinality(keys) LOOP
        got := 0;
        queue := keys[n];
        OPEN waiting (keys[n], since[n]);
        WHILE got < most[n] LOOP
            FETCH waiting INTO size, seq, seqs, ids, ats, sizes, contents;
            EXIT WHEN NOT FOUND;
            IF spent > 0 AND spent + octet_length(contents) > budget THEN
                contents := NULL;
                spent := budget;
                RETURN NEXT;
                EXIT;
            END IF;
            spent := spent + octet_length(contents);
            got := got + size;
            RETURN NEXT;
        END LOOP;
        CLOSE waiting;
    END LOOP;
END $$;

-- As `take` of the first version, but of all queues together at most about `budget` bytes are taken. A fourth kind of
-- row, 3, says that the queue at `place` has more than that.
CREATE FUNCTION take(
    space INTEGER, known BIGINT, ack_keys INTEGER[], ack_nos INTEGER[], ack_seqs BYTEA[], ack_ats BIGINT[],
    ack_untils BIGINT[], keys INTEGER[], most INTEGER[], most_bytes INTEGER, ready_since BIGINT[],
    bundle_since BIGINT[], budget BIGINT
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
    spent BIGINT := 0;
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
            ELSIF spent > 0 AND spent + octet_length(contents) > budget THEN
                kind := 3;
                spent := budget;
            END IF;
            IF kind > 1 THEN
                contents := NULL;
                RETURN NEXT;
                EXIT;
            END IF;
            DELETE FROM bundle WHERE CURRENT OF waiting;
            spent := spent + octet_length(contents);
            got := got + count;
            RETURN NEXT;
        END LOOP;
        CLOSE waiting;
    END LOOP;
END $$;
