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

-- name: waiting_again
-- What has been tried and waits, before (:due_at, :seq), the longest wait first.
SELECT seq, due_at, grp FROM message
WHERE queue = :queue AND state = 0 AND attempts > 0 AND (due_at, seq) < (:due_at, :seq)
ORDER BY due_at DESC, seq DESC LIMIT :limit;

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

-- name: read_job
SELECT name, epoch, done, opened_at FROM job WHERE queue = ? AND name = ?;

-- name: read_jobs
SELECT name, epoch, done, opened_at FROM job WHERE queue = ? ORDER BY name;

-- name: put_job
INSERT OR REPLACE INTO job (queue, name, epoch, done, opened_at) VALUES (?, ?, ?, ?, ?);

-- name: finish_claims
UPDATE job SET done = max(done, ?) WHERE queue = ? AND name = ?;

-- name: last_claim
SELECT max(number) FROM claim WHERE queue = ? AND job = ?;

-- name: read_claim
SELECT number, count, bytes, claimed_at, wanted, complete, fate FROM claim WHERE queue = ? AND job = ? AND number = ?;

-- name: held_claims
SELECT job, number, count, bytes, claimed_at FROM claim WHERE queue = ? AND fate = 0 ORDER BY job, number;

-- name: put_claim
INSERT OR REPLACE INTO claim (queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?);

-- name: decide_claims
UPDATE claim SET fate = :fate WHERE queue = :queue AND job = :job AND number <= :upto AND fate = 0;

-- name: decided_claim
-- One whose messages are still to be acked or released.
SELECT job, number, fate FROM claim WHERE queue = ? AND fate <> 0 ORDER BY job, number LIMIT 1;

-- name: decided_queues
SELECT DISTINCT queue FROM claim WHERE fate <> 0;

-- name: delete_claim
DELETE FROM claim WHERE queue = ? AND job = ? AND number = ?;

-- name: insert_claim_part
INSERT INTO claim_part (queue, job, number, first, count, seqs) VALUES (?, ?, ?, ?, ?, ?);

-- name: first_claim_part
SELECT first, seqs FROM claim_part WHERE queue = ? AND job = ? AND number = ? ORDER BY first LIMIT 1;

-- name: claim_parts
SELECT first, seqs FROM claim_part
WHERE queue = :queue AND job = :job AND number = :number AND first < :stop AND first + count > :start ORDER BY first;

-- name: delete_claim_part
DELETE FROM claim_part WHERE queue = ? AND job = ? AND number = ? AND first = ?;

-- name: ready_facts
SELECT seq, id, attempts, size FROM message WHERE queue = :queue AND state = 1 AND due_at <= :ready_by
ORDER BY due_at, seq LIMIT :limit;

-- name: claimed_sizes
SELECT seq, size FROM message WHERE +queue = ? AND +state = 2 AND +due_at = ? AND seq IN (SELECT value FROM json_each(?));

-- name: claimed_messages
-- Of the named messages those that are still held by a claim.
SELECT seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms,
       grp, trace, death, size, lease_no
FROM message WHERE +queue = ? AND +state = 2 AND +due_at = ? AND seq IN (SELECT value FROM json_each(?));

-- name: forget_claim_parts
DELETE FROM claim_part WHERE queue = ?;

-- name: forget_claims
DELETE FROM claim WHERE queue = ?;

-- name: forget_jobs
DELETE FROM job WHERE queue = ?;

-- name: insert_chunk
INSERT OR IGNORE INTO stage (target, name, part, chunk, count, staged_at, keys, parcels)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: stage_chunks
SELECT count, keys FROM stage WHERE target = ? AND name = ?;

-- name: next_chunk
SELECT rowid, parcels FROM stage WHERE target = ? AND name = ? ORDER BY part, chunk LIMIT 1;

-- name: delete_chunk
DELETE FROM stage WHERE rowid = ?;

-- name: drop_stage
-- One that is landing is no longer anybody's to drop.
DELETE FROM stage WHERE target = :target AND name = :name
  AND NOT EXISTS (SELECT 1 FROM landing WHERE target = :target AND name = :name);

-- name: staged
SELECT target, name, sum(count), sum(length(parcels)) FROM stage
WHERE target IN (SELECT value FROM json_each(?)) GROUP BY target, name;

-- name: forget_stages
DELETE FROM stage WHERE rowid IN (
    SELECT stage.rowid FROM stage LEFT JOIN landing USING (target, name)
    WHERE staged_at <= :until AND landing.id IS NULL ORDER BY staged_at LIMIT :limit
);

-- name: is_landing
SELECT 1 FROM landing WHERE target = ? AND name = ?;

-- name: add_landing
INSERT INTO landing (target, name, published_at, principal, keys) VALUES (?, ?, ?, ?, ?);

-- name: next_landing
SELECT id, target, name, published_at, principal FROM landing ORDER BY id LIMIT 1;

-- name: delete_landing
DELETE FROM landing WHERE id = ?;

-- name: landing_keys
SELECT keys FROM landing;

-- name: read_publication
SELECT series, number, count, published_at FROM publication WHERE target = ? AND series = ?;

-- name: put_publication
INSERT OR REPLACE INTO publication (target, series, number, count, published_at) VALUES (?, ?, ?, ?, ?);

-- name: forget_publications
DELETE FROM publication WHERE (target, series) IN (
    SELECT target, series FROM publication WHERE published_at <= :until ORDER BY published_at LIMIT :limit
);
