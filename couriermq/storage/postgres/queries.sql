-- name: ready_packs
SELECT {pack} FROM ready_packs(%s::int, %s::bigint, %s::bigint, %s::bigint);

-- name: ready_singles
-- Longest ready first.
SELECT {single} FROM message WHERE queue = %s AND state = 1 AND due_at BETWEEN %s AND %s ORDER BY due_at, seq LIMIT %s;

-- name: named_packs
-- The packs that hold these seqs, if any does.
SELECT {pack} FROM pack WHERE last = ANY (ARRAY(
    SELECT DISTINCT next.last FROM unnest(%s::bigint[]) AS seq, LATERAL (
        SELECT last, count FROM pack WHERE last >= seq ORDER BY last LIMIT 1
    ) AS next WHERE next.last - next.count < seq
)) ORDER BY last;

-- name: named_singles
SELECT {single} FROM message WHERE seq = ANY (%s::bigint[]) ORDER BY seq;

-- name: ended_packs
-- Until they hold a number of messages, like those below.
SELECT {pack} FROM pack WHERE last = ANY (ARRAY(
    SELECT last FROM (
        SELECT last, sum(remaining) OVER (ORDER BY due_at, last) - remaining AS before FROM (
            SELECT last, due_at, remaining FROM pack WHERE queue = %s AND state = %s AND due_at <= %s
            ORDER BY due_at, last LIMIT %s FOR UPDATE SKIP LOCKED
        ) AS line
    ) AS measured WHERE before < %s
)) AND state = %s AND due_at <= %s ORDER BY due_at, last;

-- name: ended_singles
SELECT {single} FROM message WHERE queue = %s AND state = %s AND due_at <= %s ORDER BY due_at, seq LIMIT %s;

-- name: aged_packs
SELECT {pack} FROM pack WHERE last = ANY (ARRAY(
    SELECT last FROM (
        SELECT last, sum(remaining) OVER (ORDER BY entered_at, last) - remaining AS before FROM (
            SELECT last, entered_at, remaining FROM pack WHERE queue = %s AND entered_at <= %s
            ORDER BY entered_at, last LIMIT %s FOR UPDATE SKIP LOCKED
        ) AS line
    ) AS measured WHERE before < %s
)) ORDER BY entered_at, last;

-- name: aged_singles
-- Older than the queue keeps messages.
SELECT {single} FROM message WHERE queue = %s AND discard_at IS NULL AND entered_at <= %s
ORDER BY entered_at, seq LIMIT %s;

-- name: aged_own
SELECT {single} FROM message WHERE queue = %s AND discard_at IS NOT NULL AND discard_at <= %s
ORDER BY discard_at, seq LIMIT %s;

-- name: page_packs
-- In the order in which they came into the queue, from the pack on that holds what is behind (entered_at, seq).
SELECT {pack} FROM pack WHERE last = ANY (ARRAY(
    SELECT last FROM (
        SELECT last, sum(remaining) OVER (ORDER BY entered_at, last) - remaining AS before FROM (
            SELECT last, entered_at, remaining FROM pack WHERE queue = %s AND (entered_at, last) > (%s, %s)
            ORDER BY entered_at, last LIMIT %s
        ) AS line
    ) AS measured WHERE before < %s
)) ORDER BY entered_at, last;

-- name: page_singles
SELECT {single} FROM message WHERE queue = %s AND discard_at IS NULL AND (entered_at, seq) > (%s, %s)
ORDER BY entered_at, seq LIMIT %s;

-- name: page_own
SELECT {single} FROM message WHERE queue = %s AND discard_at IS NOT NULL AND (entered_at, seq) > (%s, %s)
ORDER BY entered_at, seq LIMIT %s;

-- name: packs_waiting_again
-- What has been tried and waits, the longest wait first.
SELECT {pack} FROM pack WHERE queue = %s AND state = 0 AND attempts > 0 AND due_at <= %s
ORDER BY due_at DESC, last DESC LIMIT %s;

-- name: singles_waiting_again
SELECT {single} FROM message WHERE queue = %s AND state = 0 AND attempts > 0 AND (due_at, seq) < (%s, %s)
ORDER BY due_at DESC, seq DESC LIMIT %s;

-- name: given_singles
-- Messages that share an id of their senders', oldest first.
SELECT {single} FROM message WHERE queue = %s AND given = 1 AND id BETWEEN %s AND %s AND seq > %s
ORDER BY id, seq LIMIT %s;

-- name: packs_of_row
-- Without an index: it is asked for when a row is damaged.
SELECT {pack} FROM pack WHERE start = %s ORDER BY last;

-- name: singles_of_row
SELECT {single} FROM message WHERE start = %s OR seq = %s ORDER BY seq;

-- name: copied
SELECT k.seq FROM unnest(%s::bigint[]) AS k (seq), LATERAL (
    SELECT 1 FROM message WHERE origin = k.seq LIMIT 1
) AS copy;

-- name: next_due
-- When the next delay or lease ends, when the next own retention does, and when the oldest other message came in. What
-- has ended and somebody else has locked is left to him.
SELECT least(
    (SELECT due_at FROM pack WHERE queue = k.key AND state = 0 AND due_at > k.now ORDER BY due_at, last LIMIT 1),
    (SELECT due_at FROM pack WHERE queue = k.key AND state = 2 AND due_at > k.now ORDER BY due_at, last LIMIT 1),
    (SELECT due_at FROM message WHERE queue = k.key AND state = 0 AND due_at > k.now ORDER BY due_at, seq LIMIT 1),
    (SELECT due_at FROM message WHERE queue = k.key AND state = 2 AND due_at > k.now ORDER BY due_at, seq LIMIT 1),
    (SELECT due_at FROM pack WHERE queue = k.key AND state = 0 AND due_at <= k.now ORDER BY due_at, last LIMIT 1
     FOR UPDATE SKIP LOCKED),
    (SELECT due_at FROM pack WHERE queue = k.key AND state = 2 AND due_at <= k.now ORDER BY due_at, last LIMIT 1
     FOR UPDATE SKIP LOCKED),
    (SELECT due_at FROM message WHERE queue = k.key AND state = 0 AND due_at <= k.now ORDER BY due_at, seq LIMIT 1
     FOR UPDATE SKIP LOCKED),
    (SELECT due_at FROM message WHERE queue = k.key AND state = 2 AND due_at <= k.now ORDER BY due_at, seq LIMIT 1
     FOR UPDATE SKIP LOCKED)
), least(
    (SELECT discard_at FROM message WHERE queue = k.key AND discard_at IS NOT NULL AND discard_at > k.now
     ORDER BY discard_at, seq LIMIT 1),
    (SELECT discard_at FROM message WHERE queue = k.key AND discard_at IS NOT NULL AND discard_at <= k.now
     ORDER BY discard_at, seq LIMIT 1 FOR UPDATE SKIP LOCKED)
), least(
    (SELECT entered_at FROM pack WHERE queue = k.key AND entered_at > k.until ORDER BY entered_at, last LIMIT 1),
    (SELECT entered_at FROM pack WHERE queue = k.key AND entered_at <= k.until ORDER BY entered_at, last LIMIT 1
     FOR UPDATE SKIP LOCKED),
    (SELECT entered_at FROM message WHERE queue = k.key AND discard_at IS NULL AND entered_at > k.until
     ORDER BY entered_at, seq LIMIT 1),
    (SELECT entered_at FROM message WHERE queue = k.key AND discard_at IS NULL AND entered_at <= k.until
     ORDER BY entered_at, seq LIMIT 1 FOR UPDATE SKIP LOCKED)
) FROM (SELECT %s::int AS key, %s::bigint AS now, %s::bigint AS until) AS k;

-- name: is_due
-- Of these queues, those that time has done something to. Not with EXISTS, which may read whole tables to hash them.
SELECT k.queue FROM unnest(%s::int[], %s::bigint[]) AS k (queue, until), (SELECT %s::bigint AS now) AS t
WHERE coalesce(
    (SELECT true FROM pack WHERE queue = k.queue AND state = 2 AND due_at <= t.now LIMIT 1),
    (SELECT true FROM pack WHERE queue = k.queue AND state = 0 AND due_at <= t.now LIMIT 1),
    (SELECT true FROM pack WHERE queue = k.queue AND entered_at <= k.until LIMIT 1),
    (SELECT true FROM message WHERE queue = k.queue AND state = 2 AND due_at <= t.now LIMIT 1),
    (SELECT true FROM message WHERE queue = k.queue AND state = 0 AND due_at <= t.now LIMIT 1),
    (SELECT true FROM message WHERE queue = k.queue AND discard_at IS NOT NULL AND discard_at <= t.now LIMIT 1),
    (SELECT true FROM message WHERE queue = k.queue AND discard_at IS NULL AND entered_at <= k.until LIMIT 1),
    false
);

-- name: first_ends
-- For queues with messages that wait or are leased: when the first of these ends.
SELECT k.queue, least(
    (SELECT due_at FROM pack WHERE queue = k.queue AND state = 0 ORDER BY due_at, last LIMIT 1),
    (SELECT due_at FROM pack WHERE queue = k.queue AND state = 2 ORDER BY due_at, last LIMIT 1),
    (SELECT due_at FROM message WHERE queue = k.queue AND state = 0 ORDER BY due_at, seq LIMIT 1),
    (SELECT due_at FROM message WHERE queue = k.queue AND state = 2 ORDER BY due_at, seq LIMIT 1)
) FROM unnest(%s::int[]) AS k (queue);

-- name: age_ends
-- When the first message of each queue grows too old.
SELECT k.queue, least(
    (SELECT entered_at FROM pack WHERE queue = k.queue ORDER BY entered_at, last LIMIT 1) + k.retention_ms,
    (SELECT entered_at FROM message WHERE queue = k.queue AND discard_at IS NULL ORDER BY entered_at, seq LIMIT 1)
        + k.retention_ms,
    (SELECT discard_at FROM message WHERE queue = k.queue AND discard_at IS NOT NULL ORDER BY discard_at, seq LIMIT 1)
) FROM unnest(%s::int[], %s::bigint[]) AS k (queue, retention_ms);

-- name: journal_rows
SELECT start, crc, events FROM journal WHERE start = ANY (%s::bigint[]);

-- name: payloads
SELECT seq, body, crc FROM payload WHERE seq = ANY (%s::bigint[]);

-- name: lock_queues
SELECT pg_advisory_xact_lock(%s::int, key) FROM unnest(%s::int[]) AS key;

-- name: take_seqs
SELECT take_seqs(%s::int, %s::bigint);

-- name: last_seq
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM message_seq;

-- name: lease_block
SELECT nextval('lease_block');

-- name: totals
-- The highest part of each lane is the only one; looked up from there, no dead versions of those before are read.
SELECT coalesce(sum(ready), 0)::bigint, coalesce(sum(delayed), 0)::bigint, coalesce(sum(leased), 0)::bigint,
       coalesce(sum(bytes), 0)::bigint, coalesce(sum(sent), 0)::bigint, coalesce(sum(acked), 0)::bigint,
       coalesce(sum(dead), 0)::bigint
FROM (SELECT %s::int AS queue) AS k, (SELECT number FROM lane UNION ALL SELECT -1) AS l, LATERAL (
    SELECT * FROM tally WHERE queue = k.queue AND lane = l.number ORDER BY part DESC LIMIT 1
) AS newest;

-- name: counters_of
SELECT k.queue, t.ready, t.delayed, t.leased, t.bytes, t.sent, t.acked, t.dead, least(
    (SELECT entered_at FROM pack WHERE queue = k.queue ORDER BY entered_at, last LIMIT 1),
    (SELECT entered_at FROM message WHERE queue = k.queue AND discard_at IS NULL ORDER BY entered_at, seq LIMIT 1),
    (SELECT entered_at FROM message WHERE queue = k.queue AND discard_at IS NOT NULL ORDER BY entered_at, seq LIMIT 1)
) FROM unnest(%s::int[]) AS k (queue), LATERAL (
    SELECT coalesce(sum(ready), 0)::bigint AS ready, coalesce(sum(delayed), 0)::bigint AS delayed,
           coalesce(sum(leased), 0)::bigint AS leased, coalesce(sum(bytes), 0)::bigint AS bytes,
           coalesce(sum(sent), 0)::bigint AS sent, coalesce(sum(acked), 0)::bigint AS acked,
           coalesce(sum(dead), 0)::bigint AS dead
    FROM (SELECT number FROM lane UNION ALL SELECT -1) AS l, LATERAL (
        SELECT * FROM tally WHERE queue = k.queue AND lane = l.number ORDER BY part DESC LIMIT 1
    ) AS newest
) AS t;

-- name: pending_queues
-- Every queue with messages: how many are ready, and how many wait or are leased.
SELECT queue, sum(ready)::bigint, sum(delayed + leased)::bigint FROM tally
GROUP BY queue HAVING sum(ready + delayed + leased) > 0;

-- name: delete_tallies
DELETE FROM tally WHERE queue = %s;

-- name: commit_unit
SELECT commit_unit(%s::int, %s::bigint, %s::bigint[], %s::bytea[], %s::bigint[], %s::bigint[], %s, %s, %s::bigint);

-- name: insert_journal
INSERT INTO journal (start, count, at, private, first_seq, last_seq, crc, events)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s);

-- name: insert_packs
INSERT INTO pack ({pack})
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::smallint[], %s::bigint[], %s::int[], %s::int[], %s::bigint[], %s::int[],
                     %s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::bytea[]);

-- name: change_packs
-- `= ANY (ARRAY[...])` can only be looked up: as a join, the planner may read a table from end to end that it believes to
-- be empty. The same holds for the updates below.
UPDATE pack SET state = new.state, due_at = new.due_at, attempts = new.attempts, lease_no = new.lease_no,
                count = new.count, remaining = new.remaining, bytes = new.bytes, position = new.position,
                turn = new.turn, gone = new.gone
FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::int[], %s::int[], %s::int[], %s::int[], %s::bigint[],
            %s::int[], %s::int[], %s::bytea[])
    AS new (last, state, due_at, attempts, lease_no, count, remaining, bytes, position, turn, gone)
WHERE pack.last = ANY (ARRAY[new.last]);

-- name: delete_packs
DELETE FROM pack WHERE last = ANY (%s::bigint[]);

-- name: insert_singles
INSERT INTO message ({single})
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::smallint[], %s::bigint[], %s::int[], %s::int[], %s::bigint[],
                     %s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::smallint[], %s::bytea[], %s::bytea[],
                     %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bytea[], %s::bigint[], %s::int[],
                     %s::int[]);

-- name: change_singles
UPDATE message SET state = new.state, due_at = new.due_at, attempts = new.attempts, lease_no = new.lease_no,
                   turn = new.turn
FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::int[], %s::int[], %s::int[])
    AS new (seq, state, due_at, attempts, lease_no, turn)
WHERE message.seq = ANY (ARRAY[new.seq]);

-- name: move_singles
-- Into other queues.
UPDATE message SET queue = new.queue, state = new.state, due_at = new.due_at, attempts = new.attempts,
                   lease_no = new.lease_no, entered_at = new.entered_at, discard_at = new.discard_at, grp = new.grp,
                   death = new.death, turn = new.turn
FROM unnest(%s::bigint[], %s::int[], %s::smallint[], %s::bigint[], %s::int[], %s::int[], %s::bigint[], %s::bigint[],
            %s::bytea[], %s::bytea[], %s::int[])
    AS new (seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, grp, death, turn)
WHERE message.seq = ANY (ARRAY[new.seq]);

-- name: delete_singles
DELETE FROM message WHERE seq = ANY (%s::bigint[]);

-- name: insert_payloads
INSERT INTO payload (seq, body, crc) SELECT * FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[]);

-- name: delete_payloads
DELETE FROM payload WHERE seq = ANY (%s::bigint[]);

-- name: add_groups
-- A group that is there keeps its head: a new message stands behind it.
INSERT INTO fifo (queue, grp, leased, head, available_at)
SELECT queue, grp, 0, head, due_at FROM unnest(%s::int[], %s::bytea[], %s::bigint[], %s::bigint[])
    AS new (queue, grp, head, due_at)
ON CONFLICT DO NOTHING;

-- name: lock_group
UPDATE fifo SET leased = leased + %s, available_at = NULL WHERE queue = %s AND grp = %s;

-- name: put_group
-- Unlocked once nothing of the group is leased, from the instant at which its head is ready.
INSERT INTO fifo AS f (queue, grp, leased, head, available_at) VALUES (%s, %s, 0, %s, %s)
ON CONFLICT (queue, grp) DO UPDATE SET
    leased = f.leased + %s, head = excluded.head,
    available_at = CASE WHEN f.leased + %s = 0 THEN excluded.available_at END;

-- name: delete_group
DELETE FROM fifo WHERE queue = %s AND grp = %s;

-- name: delete_groups
DELETE FROM fifo WHERE queue = %s;

-- name: available_groups
-- Those whose heads are due by now, whatever their state; then those whose heads are ready at a later instant, which a
-- node has written whose clock is ahead. Of the latter there are few, and they are found by their messages: most groups
-- that are due later wait for the end of a delay.
(SELECT grp FROM fifo WHERE queue = %s AND available_at <= %s ORDER BY available_at, head LIMIT %s)
UNION ALL
(SELECT grp FROM message WHERE queue = %s AND state = 1 AND due_at > %s AND due_at <= %s AND seq = (
    SELECT head FROM fifo WHERE fifo.queue = message.queue AND fifo.grp = message.grp AND available_at > %s
) ORDER BY due_at, seq LIMIT %s)
LIMIT %s;

-- name: group_singles
-- Messages of a group in order, in all states. A range of one group, like the range of one id above: the order then
-- needs the group, which only the right index has. With `=` the planner may go through the index of all seqs instead,
-- where it believes that the table is empty.
SELECT {single} FROM message WHERE queue = %s AND grp BETWEEN %s AND %s ORDER BY grp, seq LIMIT %s;

-- name: group_head
SELECT seq, due_at FROM message WHERE queue = %s AND grp BETWEEN %s AND %s ORDER BY grp, seq LIMIT 1;

-- name: read_dedup
SELECT found.* FROM unnest(%s::int[], %s::bytea[]) AS k (queue, dedup_id), LATERAL (
    SELECT queue, dedup_id, until_at, seq, id FROM dedup
    WHERE dedup.queue = k.queue AND dedup.dedup_id = k.dedup_id LIMIT 1
) AS found;

-- name: put_dedup
INSERT INTO dedup (queue, dedup_id, until_at, seq, id)
SELECT * FROM unnest(%s::int[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bytea[])
ON CONFLICT (queue, dedup_id) DO UPDATE SET until_at = excluded.until_at, seq = excluded.seq, id = excluded.id;

-- name: forget_dedup
DELETE FROM dedup WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dedup WHERE until_at <= %s ORDER BY until_at LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING 1;

-- name: set_aside
INSERT INTO quarantine (last, queue, count, start, at) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING;

-- name: lanes
-- The lanes that have been used, the oldest offset that readers see, and the next one. Rows that are retained may all be
-- older than what was trimmed.
SELECT number, oldest, greatest(oldest, (
    SELECT start + count FROM journal WHERE start >= number * 2199023255552 AND start < (number + 1) * 2199023255552
    ORDER BY start DESC LIMIT 1
)) FROM lane WHERE number BETWEEN %s AND %s ORDER BY number;

-- name: take_lane
-- The lowest lane of a shard that nobody has, for as long as the session lasts.
SELECT lane FROM generate_series(0, 15) AS lane WHERE pg_try_advisory_lock(%s::int, -1000 - lane) LIMIT 1;

-- name: add_lane
INSERT INTO lane (number, oldest) VALUES (%s, %s) ON CONFLICT DO NOTHING;

-- name: read_journal
-- Whole rows of about `budget` bytes, from the one on that holds an offset; the first one even if it is larger.
SELECT start, count, at, private, crc, events FROM (
    SELECT *, sum(octet_length(events)) OVER (ORDER BY start) - octet_length(events) AS before FROM (
        SELECT start, count, at, private, crc, events FROM journal
        WHERE start >= (SELECT start FROM journal WHERE start <= %s ORDER BY start DESC LIMIT 1) AND start < %s
        ORDER BY start LIMIT %s
    ) AS next
) AS measured WHERE before < %s ORDER BY start;

-- name: row_holding
-- The row that an offset is in, or the newest row before it.
SELECT start, count FROM journal WHERE start <= %s AND start >= %s ORDER BY start DESC LIMIT 1;

-- name: row_behind
SELECT start FROM journal WHERE start > %s AND start < %s ORDER BY start LIMIT 1;

-- name: put_oldest
UPDATE lane SET oldest = greatest(oldest, %s) WHERE number = %s RETURNING oldest;

-- name: rows_to_trim
-- Rows from one offset up to another, and whether packs and how many bytes of single messages point to each.
SELECT start, first_seq, last_seq, first_seq IS NOT NULL AND coalesce((
    SELECT true FROM pack WHERE pack.last BETWEEN first_seq AND last_seq AND pack.start = journal.start LIMIT 1
), false), CASE WHEN first_seq IS NULL THEN 0 ELSE (
    SELECT coalesce(sum(size + 1), 0)::bigint FROM message
    WHERE seq BETWEEN first_seq AND last_seq AND message.start = journal.start
) END FROM journal WHERE start >= %s AND start < %s ORDER BY start LIMIT %s;

-- name: retained_rows
SELECT start, first_seq, last_seq, coalesce((
    SELECT true FROM pack WHERE pack.last BETWEEN first_seq AND last_seq AND pack.start = retained.start LIMIT 1
), false), (
    SELECT coalesce(sum(size + 1), 0)::bigint FROM message
    WHERE seq BETWEEN first_seq AND last_seq AND message.start = retained.start
), coalesce(kept, last_seq - first_seq + 1) > (
    SELECT coalesce(sum(remaining), 0) FROM pack
    WHERE pack.last BETWEEN first_seq AND last_seq AND pack.start = retained.start
) + (
    SELECT count(*) FROM message WHERE seq BETWEEN first_seq AND last_seq AND message.start = retained.start
) FROM retained WHERE start > %s ORDER BY start LIMIT %s;

-- name: pointing_singles
SELECT {single} FROM message WHERE seq BETWEEN %s AND %s AND start = %s ORDER BY seq FOR UPDATE SKIP LOCKED;

-- name: waiting_packs
SELECT {pack} FROM pack WHERE last BETWEEN %s AND %s AND start = %s;

-- name: waiting_positions
SELECT position FROM message WHERE seq BETWEEN %s AND %s AND start = %s;

-- name: rewrite_journal
UPDATE journal SET crc = %s, events = %s WHERE start = %s;

-- name: keep_bodies
UPDATE retained SET kept = %s WHERE start = %s;

-- name: copied_out
UPDATE message SET start = NULL WHERE seq = ANY (%s::bigint[]);

-- name: lock_row
SELECT start FROM journal WHERE start = %s FOR UPDATE;

-- name: drop_unused_row
-- Where nothing points to it any more, as seen now; with the row locked before, so that nobody is about to.
WITH gone AS (
    DELETE FROM journal WHERE start = %s AND (first_seq IS NULL OR coalesce((
        SELECT false FROM pack WHERE pack.last BETWEEN first_seq AND last_seq AND pack.start = journal.start LIMIT 1
    ), (
        SELECT false FROM message WHERE seq BETWEEN first_seq AND last_seq AND message.start = journal.start LIMIT 1
    ), true)) RETURNING start
), forgotten AS (DELETE FROM retained WHERE start = ANY (ARRAY(SELECT start FROM gone)))
SELECT start FROM gone;

-- name: retain
-- Unless another has removed it meanwhile.
INSERT INTO retained (start, first_seq, last_seq)
SELECT start, first_seq, last_seq FROM journal WHERE start = %s AND first_seq IS NOT NULL FOR KEY SHARE
ON CONFLICT DO NOTHING;

-- name: offset_at
SELECT start FROM journal WHERE start >= %s AND start < %s AND at >= %s ORDER BY start LIMIT 1;

-- name: offset_keeping
-- The end of the newest row that, with all that came after it, is too much.
SELECT max(start + count) FROM (
    SELECT start, count, sum(octet_length(events)) OVER (ORDER BY start DESC) AS kept
    FROM journal WHERE start >= %s AND start < %s
) AS sizes WHERE kept > %s;

-- name: notify
SELECT pg_notify(%s, %s);

-- name: database_now
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: next_key
SELECT nextval('queue_key');

-- name: change_catalog
SELECT change_catalog(%s::int, %s::bigint);

-- name: catalog_version
SELECT coalesce((SELECT convert_from(value, 'UTF8')::bigint FROM meta WHERE name = 'catalog_version'), 0);

-- name: read_records
SELECT kind, tenant, id, slot, document, gone FROM record WHERE version > %s ORDER BY version;

-- name: doomed
SELECT document FROM record WHERE kind = 'doomed' AND NOT gone;

-- name: put_record
INSERT INTO record (kind, tenant, id, slot, document, version) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (kind, tenant, id) DO UPDATE SET
    slot = excluded.slot, document = excluded.document, version = excluded.version, gone = FALSE;

-- name: delete_record
UPDATE record SET gone = TRUE, slot = NULL, version = %s WHERE kind = %s AND tenant = %s AND id = %s;

-- name: doom_record
INSERT INTO record (kind, tenant, id, document, version) VALUES ('doomed', %s, %s, %s, %s) ON CONFLICT DO NOTHING;

-- name: sweep_record
DELETE FROM record WHERE kind = 'doomed' AND tenant = %s AND id = %s;

-- name: forget_records
-- Every node that still lives has heard of these.
DELETE FROM record WHERE gone AND version < %s;

-- name: slot_owner
SELECT kind, tenant, id FROM record WHERE slot = %s;

-- name: read_meta
SELECT value FROM meta WHERE name = %s;

-- name: add_meta
INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING;

-- name: read_job
SELECT name, epoch, done, opened_at FROM job WHERE queue = %s AND name = %s;

-- name: read_jobs
SELECT name, epoch, done, opened_at FROM job WHERE queue = %s ORDER BY name;

-- name: put_job
INSERT INTO job (queue, name, epoch, done, opened_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (queue, name) DO UPDATE SET
    epoch = excluded.epoch, done = excluded.done, opened_at = excluded.opened_at;

-- name: finish_claims
UPDATE job SET done = greatest(done, %s) WHERE queue = %s AND name = %s;

-- name: read_claim
SELECT number, count, bytes, claimed_at, wanted, complete::int, fate FROM claim
WHERE queue = %s AND job = %s AND number = %s;

-- name: last_claim
SELECT max(number) FROM claim WHERE queue = %s AND job = %s;

-- name: held_claims
SELECT job, number, count, bytes, claimed_at FROM claim WHERE queue = %s AND fate = 0 ORDER BY job, number;

-- name: put_claim
INSERT INTO claim (queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
VALUES (%s, %s, %s, %s, %s, 0, %s, %s, %s)
ON CONFLICT (queue, job, number) DO UPDATE SET
    complete = excluded.complete, count = excluded.count, bytes = excluded.bytes;

-- name: decide_claims
UPDATE claim SET fate = %s WHERE queue = %s AND job = %s AND number <= %s AND fate = 0;

-- name: decided_claim
-- One whose messages are still to be acked or released.
SELECT job, number, fate FROM claim WHERE queue = %s AND fate <> 0 ORDER BY job, number LIMIT 1;

-- name: decided_queues
SELECT DISTINCT queue FROM claim WHERE fate <> 0;

-- name: delete_claim
DELETE FROM claim WHERE queue = %s AND job = %s AND number = %s;

-- name: insert_claim_part
INSERT INTO claim_part (queue, job, number, first, count, seqs) VALUES (%s, %s, %s, %s, %s, %s);

-- name: first_claim_part
SELECT first, seqs FROM claim_part WHERE queue = %s AND job = %s AND number = %s ORDER BY first LIMIT 1;

-- name: claim_part
SELECT first, count, seqs FROM claim_part WHERE queue = %s AND job = %s AND number = %s AND first <= %s
ORDER BY first DESC LIMIT 1;

-- name: delete_claim_part
DELETE FROM claim_part WHERE queue = %s AND job = %s AND number = %s AND first = %s;

-- name: forget_claim_parts
DELETE FROM claim_part WHERE queue = %s;

-- name: forget_claims
DELETE FROM claim WHERE queue = %s;

-- name: forget_jobs
DELETE FROM job WHERE queue = %s;

-- name: insert_chunk
-- A part that is there stays as it is.
INSERT INTO stage (target, name, part, chunk, count, staged_at, keys, parcels)
SELECT new.* FROM (VALUES (%s::text, %s::text, %s::bigint, %s::int, %s::int, %s::bigint, %s::bytea, %s::bytea))
    AS new (target, name, part, chunk, count, staged_at, keys, parcels)
WHERE NOT EXISTS (
    SELECT FROM stage AS old
    WHERE old.target = new.target AND old.name = new.name AND old.part = new.part AND old.chunk = 0
) ON CONFLICT DO NOTHING;

-- name: drop_old_stage
-- One whose first chunk came at that instant or before.
DELETE FROM stage USING (VALUES (%s::text, %s::text, %s::bigint)) AS old (target, name, staged_at)
WHERE stage.target = old.target AND stage.name = old.name
AND (SELECT TRUE FROM stage WHERE staged_at <= old.staged_at ORDER BY staged_at LIMIT 1)  -- seldom: looked up first
AND EXISTS (
    SELECT FROM stage AS chunk
    WHERE chunk.target = old.target AND chunk.name = old.name AND chunk.staged_at <= old.staged_at
);

-- name: renew_stage
-- Chunks of a stage that has the part, as if they had come now: those that came at that instant or before.
UPDATE stage SET staged_at = new.staged_at
FROM (VALUES (%s::text, %s::text, %s::bigint, %s::bigint, %s::bigint)) AS new (target, name, part, staged_at, before)
WHERE stage.target = new.target AND stage.name = new.name AND stage.staged_at <= new.before
AND (  -- most parts are new: looked up first
    SELECT TRUE FROM stage AS kept
    WHERE kept.target = new.target AND kept.name = new.name AND kept.part = new.part AND kept.chunk = 0
);

-- name: stage_chunks
SELECT part, count, keys, staged_at FROM stage WHERE target = %s AND name = %s ORDER BY part, chunk;

-- name: next_chunk
SELECT part, chunk, count, parcels FROM stage WHERE target = %s AND name = %s ORDER BY part, chunk LIMIT 1;

-- name: delete_chunk
DELETE FROM stage WHERE target = %s AND name = %s AND part = %s AND chunk = %s;

-- name: drop_stage
DELETE FROM stage WHERE target = %s AND name = %s;

-- name: staged
-- Chunks that are alike in number are counted together; `head` says how many parcels each of them has.
SELECT target, name, count, substring(parcels FROM 1 FOR 6) AS head, count(*), sum(octet_length(parcels))::bigint
FROM stage WHERE target = ANY (%s) GROUP BY target, name, count, head;

-- name: forget_stages
-- Chunks of the oldest stage, its first one last: while any is left, it says that the stage is too old.
DELETE FROM stage WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM stage WHERE (target, name) = (
        SELECT target, name FROM stage WHERE staged_at <= %s ORDER BY staged_at LIMIT 1
    ) ORDER BY staged_at DESC, part, chunk LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING 1;

-- name: old_stages
SELECT EXISTS (SELECT FROM stage WHERE staged_at <= %s) OR EXISTS (SELECT FROM publication WHERE published_at <= %s);

-- name: begin_publication
-- The row can be locked from here on, also where there was none before.
INSERT INTO publication (target, series, number, count, published_at) VALUES (%s, %s, -1, 0, 0) ON CONFLICT DO NOTHING;

-- name: read_publication
SELECT series, number, count, published_at FROM publication WHERE target = %s AND series = %s;

-- name: put_publication
INSERT INTO publication (target, series, number, count, published_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (target, series) DO UPDATE SET
    number = excluded.number, count = excluded.count, published_at = excluded.published_at;

-- name: forget_publications
DELETE FROM publication WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM publication WHERE published_at <= %s ORDER BY published_at LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING 1;

-- name: roster
-- Every node that says it lives, by its number, and whether its session has been silent for too long.
SELECT node.objid::bigint - 4294967296, node.pid,
       coalesce(extract(epoch FROM clock_timestamp() - session.state_change) > %s::float, FALSE)
FROM pg_locks AS node LEFT JOIN LATERAL pg_stat_get_activity(node.pid) AS session ON TRUE
WHERE node.locktype = 'advisory' AND node.objsubid = 2 AND node.granted
  AND node.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND node.classid::bigint = %s::bigint & 4294967295
  AND node.objid::bigint BETWEEN 2147483648 AND 3221225471;

-- name: end_sessions
-- One session, and those of its node, by the end of their names, that have said nothing for long in the middle of
-- something: the others hold no locks, and the node may live. Sessions of other roles are not seen.
SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(NULL) AS session
WHERE pid = %s OR datid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND application_name LIKE '%% ' || %s::text AND state <> 'idle'
  AND extract(epoch FROM clock_timestamp() - state_change) > %s::float;

-- name: hold
-- Locks that last as long as the session.
SELECT pg_advisory_lock(%s::int, key) FROM unnest(%s::int[]) AS key;

-- name: try_to_hold
SELECT key, pg_try_advisory_lock(%s::int, key) FROM unnest(%s::int[]) AS key;

-- name: let_go
SELECT pg_advisory_unlock(%s::int, key) FROM unnest(%s::int[]) AS key;

-- name: join_shard
-- What makes a database a shard of a store; the first to say so decides.
INSERT INTO meta (name, value) VALUES ('shard', convert_to(%s::int::text, 'UTF8')), ('seal_key', %s)
ON CONFLICT DO NOTHING;

-- name: is_used
SELECT EXISTS (SELECT FROM record) OR EXISTS (SELECT FROM journal) OR EXISTS (SELECT FROM meta);

-- name: start_seqs
-- Seqs go on from here, unless they already do.
SELECT setval('message_seq', k.first, FALSE) FROM message_seq, (SELECT %s::bigint AS first) AS k
WHERE last_value < k.first;

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = %s::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;

-- name: arrived_since
SELECT seq FROM dedup WHERE queue = ANY (%s::int[]) AND until_at >= %s;

-- name: page_of_seqs
-- A queue's single messages by when they came into it, after (entered_at, seq).
SELECT entered_at, seq FROM (
    (SELECT seq, entered_at FROM message
     WHERE queue = %s AND discard_at IS NULL AND (entered_at, seq) > (%s, %s) ORDER BY entered_at, seq LIMIT %s)
    UNION ALL
    (SELECT seq, entered_at FROM message
     WHERE queue = %s AND discard_at IS NOT NULL AND (entered_at, seq) > (%s, %s) ORDER BY entered_at, seq LIMIT %s)
) AS both_kinds ORDER BY entered_at, seq LIMIT %s;

-- name: delayed_seqs
-- Delays end without an event.
SELECT seq FROM message WHERE queue = ANY (%s::int[]) AND state = 0 AND due_at <= %s;

-- name: versions_of_packs
-- By which transaction each was written.
SELECT last, xmin::text FROM pack WHERE queue = %s;

-- name: rows_of_singles
SELECT DISTINCT start FROM message WHERE seq = ANY (%s::bigint[]) AND start IS NOT NULL;

-- name: rows_of_packs
SELECT DISTINCT start FROM pack WHERE last = ANY (%s::bigint[]);

-- name: hold_rows
-- Those that are there, and whether they have lost bodies. They are written as they are, so that nobody blanks or removes
-- them who has looked before. The count is in no index, so that the planner does not read that by time instead of
-- looking up each start.
UPDATE journal SET crc = crc WHERE start = ANY (%s::bigint[]) AND count > 0
RETURNING start, coalesce((SELECT kept IS NOT NULL FROM retained WHERE retained.start = journal.start), FALSE);

-- name: retain_rows
INSERT INTO retained (start, first_seq, last_seq)
SELECT start, first_seq, last_seq FROM journal WHERE start = ANY (%s::bigint[]) ON CONFLICT DO NOTHING;

-- name: delete_copies
WITH gone AS (DELETE FROM message WHERE queue = ANY (%s::int[]) AND seq = ANY (%s::bigint[]) RETURNING seq)
DELETE FROM payload WHERE seq = ANY (ARRAY(SELECT seq FROM gone));

-- name: delete_pack_copies
DELETE FROM pack WHERE queue = %s AND last = ANY (%s::bigint[]);

-- name: erase_singles
WITH gone AS (
    DELETE FROM message WHERE seq = ANY (ARRAY(SELECT seq FROM message WHERE queue = %s ORDER BY state, due_at LIMIT %s))
    RETURNING seq
), bodies AS (DELETE FROM payload WHERE seq = ANY (ARRAY(SELECT seq FROM gone)))
SELECT seq FROM gone;

-- name: erase_packs
DELETE FROM pack WHERE last = ANY (ARRAY(SELECT last FROM pack WHERE queue = %s ORDER BY state, due_at LIMIT %s))
RETURNING last;

-- name: count_messages
SELECT coalesce(sum(ready + delayed + leased), 0)::bigint FROM tally WHERE queue = ANY (%s::int[]);

-- name: sums_of_tallies
-- What the lanes of one database have come to is one row in the next.
SELECT queue, -1, sum(ready), sum(delayed), sum(leased), sum(bytes), sum(sent), sum(acked), sum(dead) FROM tally
WHERE queue = ANY (%s::int[]) GROUP BY queue;

-- name: put_sums
INSERT INTO tally (queue, lane, ready, delayed, leased, bytes, sent, acked, dead)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: remove_record
UPDATE record SET gone = TRUE, slot = NULL, version = %s WHERE kind = %s AND tenant = %s AND id = %s;

-- name: take_mark
-- Who moves a queue puts his name here; what others do under an older one is refused from then on.
INSERT INTO meta (name, value) VALUES ('move/' || %s::text, convert_to(%s::text, 'UTF8'))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: check_mark
SELECT TRUE FROM meta WHERE name = 'move/' || %s::text AND value = convert_to(%s::text, 'UTF8') FOR SHARE;

-- name: assert_mark
-- Fails where another has taken the move over.
SELECT 1 / count(*) FROM (
    SELECT FROM meta WHERE name = 'move/' || %s::text AND value = convert_to(%s::text, 'UTF8') FOR SHARE
) AS mark;
