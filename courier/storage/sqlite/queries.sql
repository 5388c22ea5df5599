-- name: insert_message
INSERT INTO message (seq, queue, state, due_at, attempts, lease_no, entered_at, own, discard_at, sent_at, delay_ms,
                     size, given, id, content_type, attributes, grp, trace, origin, body)
VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_plain_message
-- Only what every message has: sqlite3 takes long to bind a NULL, a boolean or bytes.
INSERT INTO message (seq, queue, state, due_at, attempts, lease_no, entered_at, own, sent_at, delay_ms, size, given, id,
                     content_type, body)
VALUES (?, ?, ?, ?, 0, 0, ?, 0, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_payload
INSERT INTO payload (seq, body) VALUES (?, ?);

-- name: delete_payload
DELETE FROM payload WHERE seq = ?;

-- name: read_payload
SELECT body FROM payload WHERE seq = ?;

-- name: ready_messages
-- Longest ready first.
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE queue = :queue AND state = 1 ORDER BY due_at, seq LIMIT :limit;

-- name: group_messages
-- A group in its order, whatever the states.
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE queue = :queue AND grp = :grp ORDER BY seq LIMIT :limit;

-- name: page
-- A queue's messages in the order in which they came into it, after (:entered_at, :seq).
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE queue = :queue AND own = 0 AND (entered_at, seq) > (:entered_at, :seq)
UNION ALL
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE queue = :queue AND own = 1 AND (entered_at, seq) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit;

-- name: message
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE seq = ? AND queue = ?;

-- name: given_messages
-- Messages that share an id of their senders', oldest first.
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE queue = :queue AND given = 1 AND id = :id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: lease
-- Counted when leased, not when acked: a consumer that dies must still use an attempt up.
UPDATE message SET state = 2, due_at = ?, attempts = attempts + 1, lease_no = lease_no + 1 WHERE seq = ?;

-- name: settling
-- What a settlement must know; `keep_at` is when its own retention ends, else when it came in. `:seqs` stands for as many
-- marks as there are seqs. The plus keeps SQLite from looking through the whole queue instead of the named rows.
SELECT seq, id, attempts, size, grp, coalesce(discard_at, entered_at) AS keep_at, state, lease_no, due_at, own,
       origin
FROM message WHERE +queue = ? AND seq IN (:seqs);

-- name: extend
UPDATE message SET due_at = ? WHERE seq = ?;

-- name: put_back
UPDATE message SET state = ?, due_at = ? WHERE seq = ?;

-- name: uncount_attempt
UPDATE message SET attempts = attempts - 1 WHERE seq = ?;

-- name: transfer
-- Into another queue, as if it had just come: fresh attempts, that queue's retention.
UPDATE message SET queue = :queue, state = 1, due_at = :at, entered_at = :at, attempts = 0, own = 0, discard_at = NULL,
                   grp = :grp, death = :death
WHERE seq = :seq;

-- name: has_copies
SELECT 1 FROM message WHERE origin = ? LIMIT 1;

-- name: original
-- Wherever it is now; `queue` tells.
SELECT queue, id, state, attempts, size, grp FROM message WHERE seq = ?;

-- name: delete_message
DELETE FROM message WHERE seq = ?;

-- name: wake_delayed
-- Delays that ended; the message keeps the instant at which it became ready.
UPDATE message SET state = 1 WHERE seq IN (
    SELECT seq FROM message WHERE queue = :queue AND state = 0 AND due_at <= :now ORDER BY due_at LIMIT :limit
);

-- name: ended_leases
SELECT seq, id, attempts, size, grp, due_at, entered_at, discard_at FROM message
WHERE queue = :queue AND state = 2 AND due_at <= :now ORDER BY due_at, seq LIMIT :limit;

-- name: aged
-- Older than the queue keeps messages.
SELECT seq, id, state, attempts, size, grp, entered_at FROM message
WHERE queue = :queue AND own = 0 AND entered_at <= :until ORDER BY entered_at LIMIT :limit;

-- name: aged_by_themselves
SELECT seq, id, state, attempts, size, grp, discard_at FROM message
WHERE queue = :queue AND own = 1 AND discard_at <= :now ORDER BY discard_at LIMIT :limit;

-- name: next_delay_end
SELECT min(due_at) FROM message WHERE queue = ? AND state = 0;

-- name: next_lease_end
SELECT min(due_at) FROM message WHERE queue = ? AND state = 2;

-- name: oldest_entered
SELECT min(entered_at) FROM message WHERE queue = ? AND own = 0;

-- name: oldest_entered_own
SELECT min(entered_at) FROM message WHERE queue = ? AND own = 1;

-- name: next_own_end
SELECT min(discard_at) FROM message WHERE queue = ? AND own = 1;

-- name: available_groups
SELECT grp FROM fifo WHERE queue = :queue AND available_at <= :now ORDER BY available_at, head LIMIT :limit;

-- name: add_group
-- A group that is there keeps its head: a new message stands behind it.
INSERT INTO fifo (queue, grp, leased, head, available_at) VALUES (?, ?, 0, ?, ?) ON CONFLICT DO NOTHING;

-- name: lock_group
UPDATE fifo SET leased = leased + ?, available_at = NULL WHERE queue = ? AND grp = ?;

-- name: group_head
SELECT seq, due_at FROM message WHERE queue = ? AND grp = ? ORDER BY seq LIMIT 1;

-- name: put_group
-- Unlocked once nothing of the group is leased, from the instant at which its head is ready.
INSERT INTO fifo (queue, grp, leased, head, available_at) VALUES (:queue, :grp, 0, :head, :due_at)
ON CONFLICT (queue, grp) DO UPDATE SET
    leased = leased + :leased, head = :head, available_at = CASE WHEN leased + :leased = 0 THEN :due_at END;

-- name: delete_group
DELETE FROM fifo WHERE queue = ? AND grp = ?;

-- name: delete_groups
DELETE FROM fifo WHERE queue = ?;

-- name: read_dedup
SELECT seq, id FROM dedup WHERE queue = ? AND dedup_id = ? AND until_at > ?;

-- name: put_dedup
INSERT OR REPLACE INTO dedup (queue, dedup_id, until_at, seq, id) VALUES (?, ?, ?, ?, ?);

-- name: forget_dedup
DELETE FROM dedup WHERE (queue, dedup_id) IN (SELECT queue, dedup_id FROM dedup WHERE until_at <= :now LIMIT :limit);

-- name: read_tallies
SELECT queue, ready, delayed, leased, bytes, sent, acked, dead FROM tally;

-- name: put_tally
INSERT OR REPLACE INTO tally (queue, ready, delayed, leased, bytes, sent, acked, dead) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_tally
DELETE FROM tally WHERE queue = ?;

-- name: insert_journal
INSERT INTO journal (start, count, at, next_seq, events) VALUES (?, ?, ?, ?, ?);

-- name: journal_edges
SELECT (SELECT min(start) FROM journal), start + count, next_seq FROM journal ORDER BY start DESC LIMIT 1;

-- name: read_journal
SELECT start, count, events FROM journal
WHERE start >= (SELECT max(start) FROM journal WHERE start <= :offset) AND start < :durable ORDER BY start;

-- name: trim_journal
-- The newest commit stays: it holds the next offset and the next seq.
DELETE FROM journal WHERE start + count <= :before AND start < (SELECT max(start) FROM journal);

-- name: offset_at
-- Where the first commit after an instant starts.
SELECT min(start) FROM journal WHERE at >= ?;

-- name: offset_keeping
-- The end of the newest commit that, with all that came after it, is too much.
SELECT max(start + count) FROM (
    SELECT start, count, sum(length(events)) OVER (ORDER BY start DESC) AS kept FROM journal
) WHERE kept > ?;

-- name: read_records
SELECT kind, tenant, id, slot, document FROM record;

-- name: put_record
INSERT INTO record (kind, tenant, id, slot, document) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, tenant, id) DO UPDATE SET slot = excluded.slot, document = excluded.document;

-- name: delete_record
DELETE FROM record WHERE kind = ? AND tenant = ? AND id = ?;

-- name: doom_record
UPDATE record SET kind = 'doomed', slot = NULL WHERE kind = 'queue' AND tenant = ? AND id = ?;

-- name: read_meta
SELECT value FROM meta WHERE name = ?;

-- name: put_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?);
