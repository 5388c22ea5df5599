-- name: join_shard
-- What makes a database a shard of a store; the first to say so decides.
INSERT INTO meta (name, value) VALUES ('shard', convert_to((:number)::text, 'UTF8')), ('seal_key', :seal_key)
ON CONFLICT DO NOTHING;

-- name: is_used
SELECT EXISTS (SELECT FROM record) OR EXISTS (SELECT FROM journal) OR EXISTS (SELECT FROM meta);

-- name: start_seqs
-- Seqs go on from here, unless they already do.
SELECT setval('message_seq', :first, FALSE) FROM message_seq WHERE last_value < :first;

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = (:table)::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' ORDER BY attnum;

-- name: travellers
-- Messages that wait to be carried to another shard, oldest first; `xmin`, the transaction that put one on its way,
-- tells one journey of a message from the next.
SELECT seq, xmin::text, id, given, size, due_at, entered_at, lease_no, grp, death, content FROM message
WHERE queue = :key AND state = 1 ORDER BY due_at, seq LIMIT :limit;

-- name: remember_arrivals
-- Those whose journey has not ended before.
INSERT INTO dedup (queue, dedup_id, until_at, seq, id)
SELECT -(:key)::int, journey, :until_at, seq, ''::bytea
FROM unnest((:seqs)::bigint[], (:journeys)::bytea[]) AS new (seq, journey) ORDER BY seq
ON CONFLICT (queue, dedup_id) DO NOTHING RETURNING seq;

-- name: insert_arrivals
INSERT INTO message (seq, queue, state, attempts, lease_no, size, due_at, entered_at, given, id, grp, death, content)
SELECT seq, (:key)::int, 1, 0, lease_no, size, due_at, entered_at, given, id, grp, death, content
FROM unnest((:seqs)::bigint[], (:lease_nos)::int[], (:sizes)::int[], (:due_ats)::bigint[], (:entered_ats)::bigint[],
            (:givens)::boolean[], (:ids)::bytea[], (:grps)::bytea[], (:deaths)::bytea[], (:contents)::bytea[])
    AS new (seq, lease_no, size, due_at, entered_at, given, id, grp, death, content);

-- name: remove_travellers
DELETE FROM message WHERE queue = :key AND seq = ANY ((:seqs)::bigint[]) RETURNING size;

-- name: arrived_since
SELECT seq FROM dedup WHERE queue = ANY ((:stand_ins)::int[]) AND until_at >= :until_at;

-- name: page_of_seqs
-- A queue's messages by when they came into it, after (:entered_at, :seq).
SELECT entered_at, seq FROM (
    (SELECT seq, entered_at FROM message
     WHERE queue = :key AND discard_at IS NULL AND (entered_at, seq) > (:entered_at, :seq)
     ORDER BY entered_at, seq LIMIT :limit)
    UNION ALL
    (SELECT seq, entered_at FROM message
     WHERE queue = :key AND discard_at IS NOT NULL AND (entered_at, seq) > (:entered_at, :seq)
     ORDER BY entered_at, seq LIMIT :limit)
) AS both_kinds ORDER BY entered_at, seq LIMIT :limit;

-- name: delayed_seqs
-- Delays end without an event.
SELECT seq FROM message WHERE queue = ANY ((:keys)::int[]) AND state = 0 AND due_at <= :horizon;

-- name: delete_copies
DELETE FROM message WHERE queue = ANY ((:keys)::int[]) AND seq = ANY ((:seqs)::bigint[]);

-- name: erase_some
DELETE FROM message WHERE seq = ANY (ARRAY(
    (SELECT seq FROM message WHERE queue = :key AND discard_at IS NULL ORDER BY entered_at, seq LIMIT :limit)
    UNION ALL
    (SELECT seq FROM message WHERE queue = :key AND discard_at IS NOT NULL ORDER BY entered_at, seq LIMIT :limit)
)) RETURNING seq;

-- name: erase_bundles
DELETE FROM bundle WHERE queue = :key AND seq IN (
    SELECT seq FROM bundle WHERE queue = :key ORDER BY seq LIMIT :limit
) RETURNING seq;

-- name: erase_held
DELETE FROM held WHERE queue = :key AND lease_no IN (
    SELECT lease_no FROM held WHERE queue = :key ORDER BY lease_no LIMIT :limit
) RETURNING lease_no;

-- name: count_messages
SELECT coalesce(sum(ready + delayed + leased), 0)::bigint FROM (
    SELECT DISTINCT ON (queue) ready, delayed, leased FROM tally
    WHERE queue = ANY ((:keys)::int[]) ORDER BY queue, version DESC
) AS newest;

-- name: remove_record
UPDATE record SET gone = TRUE, slot = NULL, version = :version WHERE kind = :kind AND tenant = :tenant AND id = :id;

-- name: take_mark
-- Whoever moves a queue puts his name here; what others do under an older one is refused from then on.
INSERT INTO meta (name, value) VALUES ('move/' || (:queue_id)::text, convert_to((:runner)::text, 'UTF8'))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: check_mark
SELECT TRUE FROM meta WHERE name = 'move/' || (:queue_id)::text AND value = convert_to((:runner)::text, 'UTF8') FOR SHARE;
