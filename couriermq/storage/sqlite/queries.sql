-- name: insert_pack
INSERT INTO pack (last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_pack
-- Its state.
UPDATE pack SET state = ?, due_at = ?, attempts = ?, lease_no = ?, count = ?, remaining = ?, bytes = ?, position = ?,
                turn = ?, gone = ?, crc = ?
WHERE last = ?;

-- name: shrink_pack
-- Its extent alone, so that no index is touched.
UPDATE pack SET count = ?, remaining = ?, bytes = ?, position = ?, turn = ?, gone = ?, crc = ? WHERE last = ?;

-- name: delete_pack
DELETE FROM pack WHERE last = ?;

-- name: ready_packs
-- Longest ready first.
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE queue = ? AND state = 1 AND due_at <= ? ORDER BY due_at, last;

-- name: pack_of
-- The pack that a seq is in, if it is in any.
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE last >= ? ORDER BY last LIMIT 1;

-- name: ended_packs
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE queue = ? AND state = ? AND due_at <= ? ORDER BY due_at, last;

-- name: aged_packs
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE queue = ? AND entered_at <= ? ORDER BY entered_at, last;

-- name: page_packs
-- In the order in which they came into the queue, from the pack on that holds what is behind (:entered_at, :seq).
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE queue = :queue AND (entered_at, last) > (:entered_at, :seq) ORDER BY entered_at, last;

-- name: pointing_packs
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE last BETWEEN :first AND :last AND start = :start;

-- name: insert_single
INSERT INTO message (seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given,
                     id, content_type, attributes, grp, trace, origin, death, start, position, turn, crc, own)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_single
UPDATE message SET state = ?, due_at = ?, attempts = ?, lease_no = ?, turn = ?, crc = ? WHERE seq = ?;

-- name: move_single
-- Into another queue.
UPDATE message SET queue = ?, state = ?, due_at = ?, attempts = ?, lease_no = ?, entered_at = ?, discard_at = ?, own = ?,
                   grp = ?, death = ?, turn = ?, crc = ?
WHERE seq = ?;

-- name: delete_single
DELETE FROM message WHERE seq = ?;

-- name: ready_singles
-- Longest ready first.
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND state = 1 AND due_at <= ? ORDER BY due_at, seq LIMIT ?;

-- name: named_singles
-- `:seqs` stands for as many marks as there are seqs.
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE seq IN (:seqs);

-- name: ended_singles
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND state = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?;

-- name: aged_singles
-- Older than the queue keeps messages.
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND own = 0 AND entered_at <= ? ORDER BY entered_at LIMIT ?;

-- name: aged_own
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND own = 1 AND discard_at <= ? ORDER BY discard_at LIMIT ?;

-- name: page_singles
-- In the order in which they came into the queue, behind (:entered_at, :seq).
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = :queue AND own = 0 AND (entered_at, seq) > (:entered_at, :seq)
UNION ALL
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = :queue AND own = 1 AND (entered_at, seq) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit;

-- name: given_singles
-- Messages that share an id of their senders', oldest first.
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND given = 1 AND id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: group_singles
-- A group in its order, whatever the states.
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND grp = ? ORDER BY seq LIMIT ?;

-- name: pointing_singles
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE seq BETWEEN :first AND :last AND start = :start;

-- name: copied_out
UPDATE message SET start = NULL, crc = ? WHERE seq = ?;

-- name: insert_payload
INSERT INTO payload (seq, body, crc) VALUES (?, ?, ?);

-- name: delete_payload
DELETE FROM payload WHERE seq = ?;

-- name: read_payload
SELECT body, crc FROM payload WHERE seq = ?;

-- name: next_pack_due
-- When the next of a state is over.
SELECT min(due_at) FROM pack WHERE queue = ? AND state = ?;

-- name: next_message_due
-- When the next of a state is over.
SELECT min(due_at) FROM message WHERE queue = ? AND state = ?;

-- name: oldest_single
SELECT min(entered_at) FROM message WHERE queue = ? AND own = 0;

-- name: oldest_own
SELECT min(entered_at) FROM message WHERE queue = ? AND own = 1;

-- name: oldest_pack
SELECT min(entered_at) FROM pack WHERE queue = ?;

-- name: next_own_end
SELECT min(discard_at) FROM message WHERE queue = ? AND own = 1;

-- name: insert_journal
INSERT INTO journal (start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, events)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: journal_ends
-- The oldest row, and what the newest says.
SELECT (SELECT min(start) FROM journal), start + count, next_seq, next_lease,
       head = crc(start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc)
FROM journal ORDER BY start DESC LIMIT 1;

-- name: journal_row
SELECT start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, events
FROM journal WHERE start = ?;

-- name: read_journal
SELECT start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, events FROM journal
WHERE start >= (SELECT max(start) FROM journal WHERE start <= :offset) AND start < :durable ORDER BY start;

-- name: row_holding
-- The row that an offset is in, or the newest row.
SELECT start, count FROM journal WHERE start <= ? ORDER BY start DESC LIMIT 1;

-- name: row_behind
SELECT min(start) FROM journal WHERE start > ?;

-- name: rows_to_trim
SELECT start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head FROM journal
WHERE start >= :from AND start < :before ORDER BY start LIMIT :limit;

-- name: delete_journal_row
DELETE FROM journal WHERE start = ?;

-- name: retain
INSERT OR IGNORE INTO retained (start) VALUES (?);

-- name: retained_rows
SELECT retained.start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, kept
FROM retained LEFT JOIN journal USING (start) WHERE retained.start > ? ORDER BY retained.start LIMIT ?;

-- name: unretain
DELETE FROM retained WHERE start = ?;

-- name: offset_at
-- Where the first commit after an instant starts.
SELECT min(start) FROM journal WHERE at >= ? AND start >= ?;

-- name: offset_keeping
-- The end of the newest row that, with all that came after it, is too much.
SELECT max(start + count) FROM (
    SELECT start, count, sum(length(events)) OVER (ORDER BY start DESC) AS kept FROM journal WHERE start >= :oldest
) WHERE kept > :size;

-- name: other_spans
SELECT start / :size AS lane, min(start), max(start + count) FROM other_lane GROUP BY lane ORDER BY lane;

-- name: put_other
INSERT OR REPLACE INTO other_lane (start, count, at, crc, head, events) VALUES (?, ?, ?, ?, ?, ?);

-- name: other_from
-- As rows of the journal, here and below: the columns that are not stored have the same values in all of them.
SELECT start, count, at, 1, 1, 0, NULL, NULL, crc, head, events
FROM other_lane WHERE start >= ? AND start < ? ORDER BY start LIMIT ?;

-- name: read_other
SELECT start, count, at, 1, 1, 0, NULL, NULL, crc, head, events FROM other_lane
WHERE start >= (SELECT max(start) FROM other_lane WHERE start <= :offset) AND start < :durable ORDER BY start;

-- name: other_offset_at
SELECT min(start) FROM other_lane WHERE at >= ? AND start >= ? AND start < ?;

-- name: other_offset_keeping
SELECT max(start + count) FROM (
    SELECT start, count, sum(length(events)) OVER (ORDER BY start DESC) AS kept FROM other_lane
    WHERE start >= ? AND start < ?
) WHERE kept > ?;

-- name: trim_other
-- Whole rows, but for the newest of the lane.
DELETE FROM other_lane WHERE start >= :first AND start + count <= :before AND start + count < :next;

-- name: read_claim
SELECT number, count, bytes, claimed_at, wanted, complete, fate,
       crc = crc(queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
FROM claim WHERE queue = ? AND job = ? AND number = ?;

-- name: decide_claims
UPDATE claim SET fate = ?1, crc = crc(queue, job, number, wanted, complete, ?1, count, bytes, claimed_at)
WHERE queue = ?2 AND job = ?3 AND number <= ?4 AND fate = 0;

-- name: stage_chunks
-- Of a stage that is not landing yet.
SELECT part, count, keys, staged_at, crc = crc(target, name, part, chunk, count, staged_at, keys, parcels_crc)
FROM stage WHERE target = :target AND name = :name
  AND NOT EXISTS (SELECT 1 FROM landing WHERE target = :target AND name = :name);

-- name: drop_stage
-- One that is landing is no longer anybody's to drop.
DELETE FROM stage WHERE target = ?1 AND name = ?2
  AND NOT EXISTS (SELECT 1 FROM landing WHERE target = ?1 AND name = ?2);

-- name: has_copies
SELECT 1 FROM message WHERE origin = ? LIMIT 1;

-- name: available_groups
-- Those whose heads are due by now, whatever their state; then those whose heads are ready at a later instant, as after
-- the clock was set back. Of the latter there are few, and they are found by their messages: most groups that are due
-- later wait for the end of a delay.
SELECT * FROM (
    SELECT grp FROM fifo WHERE queue = :queue AND available_at <= :now ORDER BY available_at, head LIMIT :limit
) UNION ALL SELECT * FROM (
    SELECT grp FROM message WHERE queue = :queue AND state = 1 AND due_at > :now AND due_at <= :by AND seq = (
        SELECT head FROM fifo WHERE fifo.queue = message.queue AND fifo.grp = message.grp AND available_at > :now
    ) ORDER BY due_at LIMIT :limit
) LIMIT :limit;

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
-- A damaged row counts as none: the worst is a duplicate.
SELECT until_at, seq, id FROM dedup WHERE queue = ? AND dedup_id = ? AND crc = crc(queue, dedup_id, until_at, seq, id);

-- name: put_dedup
INSERT OR REPLACE INTO dedup (queue, dedup_id, until_at, seq, id, crc)
VALUES (?1, ?2, ?3, ?4, ?5, crc(?1, ?2, ?3, ?4, ?5));

-- name: forget_dedup
DELETE FROM dedup WHERE (queue, dedup_id) IN (SELECT queue, dedup_id FROM dedup WHERE until_at <= :now LIMIT :limit);

-- name: read_tallies
SELECT queue, ready, delayed, leased, bytes, sent, acked, dead,
       crc = crc(queue, ready, delayed, leased, bytes, sent, acked, dead)
FROM tally;

-- name: put_tally
INSERT OR REPLACE INTO tally (queue, ready, delayed, leased, bytes, sent, acked, dead, crc)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, crc(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8));

-- name: delete_tally
DELETE FROM tally WHERE queue = ?;

-- name: read_records
SELECT kind, tenant, id, slot, document, crc = crc(kind, tenant, id, slot, document) FROM record;

-- name: put_record
INSERT INTO record (kind, tenant, id, slot, document, crc) VALUES (?1, ?2, ?3, ?4, ?5, crc(?1, ?2, ?3, ?4, ?5))
ON CONFLICT (kind, tenant, id) DO UPDATE SET slot = excluded.slot, document = excluded.document, crc = excluded.crc;

-- name: delete_record
DELETE FROM record WHERE kind = ? AND tenant = ? AND id = ?;

-- name: doom_record
UPDATE record SET kind = 'doomed', slot = NULL, crc = crc('doomed', tenant, id, NULL, document)
WHERE kind = 'queue' AND tenant = ? AND id = ?;

-- name: read_meta
SELECT value, crc = crc(name, value) FROM meta WHERE name = ?;

-- name: put_meta
INSERT OR REPLACE INTO meta (name, value, crc) VALUES (?1, ?2, crc(?1, ?2));

-- name: delete_meta
DELETE FROM meta WHERE name = ?;

-- name: counters
-- What the newest row of the journal says that the store goes on with.
SELECT start + count, next_seq, next_lease, at,
       head = crc(start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc)
FROM journal ORDER BY start DESC LIMIT 1;

-- name: highest_seq
-- Of the messages that are there; a migration writes no journal row of its own.
SELECT max((SELECT coalesce(max(seq), 0) FROM message), (SELECT coalesce(max(last), 0) FROM pack));

-- name: end_leases_of_packs
-- A damaged row stays as it is: a new checksum would make it look sound.
UPDATE pack SET due_at = :now, crc = crc(
    last, queue, state, :now, attempts, lease_no, entered_at, count, remaining, bytes, start, position,
    turn, gone)
WHERE state = 2 AND due_at > :now AND due_at <> :unending AND crc = crc(
    last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start,
    position, turn, gone);

-- name: end_leases_of_singles
UPDATE message SET due_at = :now, crc = crc(
    seq, queue, state, :now, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given,
    id, content_type, attributes, grp, trace, origin, death, start, position, turn)
WHERE state = 2 AND due_at > :now AND due_at <> :unending AND crc = crc(
    seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size,
    given, id, content_type, attributes, grp, trace, origin, death, start, position, turn);

-- name: read_job
SELECT name, epoch, done, opened_at, crc = crc(queue, name, epoch, done, opened_at) FROM job
WHERE queue = ? AND name = ?;

-- name: read_jobs
SELECT name, epoch, done, opened_at, crc = crc(queue, name, epoch, done, opened_at) FROM job
WHERE queue = ? ORDER BY name;

-- name: put_job
INSERT OR REPLACE INTO job (queue, name, epoch, done, opened_at, crc)
VALUES (?1, ?2, ?3, ?4, ?5, crc(?1, ?2, ?3, ?4, ?5));

-- name: finish_claims
UPDATE job SET done = max(done, ?1), crc = crc(queue, name, epoch, max(done, ?1), opened_at)
WHERE queue = ?2 AND name = ?3;

-- name: last_claim
SELECT max(number) FROM claim WHERE queue = ? AND job = ?;

-- name: held_claims
SELECT job, number, count, bytes, claimed_at,
       crc = crc(queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
FROM claim WHERE queue = ? AND fate = 0 ORDER BY job, number;

-- name: put_claim
INSERT OR REPLACE INTO claim (queue, job, number, wanted, complete, fate, count, bytes, claimed_at, crc)
VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, crc(?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8));

-- name: decided_claim
-- One whose messages are still to be acked or released.
SELECT job, number, fate, crc = crc(queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
FROM claim WHERE queue = ? AND fate <> 0 ORDER BY job, number LIMIT 1;

-- name: decided_queues
SELECT DISTINCT queue FROM claim WHERE fate <> 0;

-- name: delete_claim
DELETE FROM claim WHERE queue = ? AND job = ? AND number = ?;

-- name: insert_claim_part
INSERT INTO claim_part (queue, job, number, first, count, seqs, crc)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, crc(?1, ?2, ?3, ?4, ?5, ?6));

-- name: first_claim_part
SELECT first, seqs, crc = crc(queue, job, number, first, count, seqs) FROM claim_part
WHERE queue = ? AND job = ? AND number = ? ORDER BY first LIMIT 1;

-- name: claim_part
SELECT first, count, seqs, crc = crc(queue, job, number, first, count, seqs) FROM claim_part
WHERE queue = ? AND job = ? AND number = ? AND first <= ? ORDER BY first DESC LIMIT 1;

-- name: delete_claim_part
DELETE FROM claim_part WHERE queue = ? AND job = ? AND number = ? AND first = ?;

-- name: forget_claim_parts
DELETE FROM claim_part WHERE queue = ?;

-- name: forget_claims
DELETE FROM claim WHERE queue = ?;

-- name: forget_jobs
DELETE FROM job WHERE queue = ?;

-- name: insert_chunk
-- A part that is there, and a stage that is landing, stay as they are.
INSERT OR IGNORE INTO stage (target, name, part, chunk, count, staged_at, keys, parcels, parcels_crc, crc)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, crc32(?8), crc(?1, ?2, ?3, ?4, ?5, ?6, ?7, crc32(?8))
WHERE NOT EXISTS (SELECT 1 FROM landing WHERE target = ?1 AND name = ?2)
AND NOT EXISTS (SELECT 1 FROM stage WHERE target = ?1 AND name = ?2 AND part = ?3 AND chunk = 0);

-- name: drop_old_stage
-- One whose first chunk came at that instant or before, unless it is landing.
DELETE FROM stage WHERE target = ?1 AND name = ?2
  AND EXISTS (SELECT 1 FROM stage WHERE staged_at <= ?3 AND +target = ?1 AND +name = ?2)  -- few are as old as that
  AND NOT EXISTS (SELECT 1 FROM landing WHERE target = ?1 AND name = ?2);

-- name: renew_stage
-- Chunks of a stage that has the part, as if they had come now: those that came at that instant or before.
UPDATE stage SET staged_at = ?4, crc = crc(target, name, part, chunk, count, ?4, keys, parcels_crc)
WHERE rowid IN (
    SELECT old.rowid FROM stage AS kept CROSS JOIN stage AS old USING (target, name)  -- most parts are new
    WHERE target = ?1 AND name = ?2 AND kept.part = ?3 AND kept.chunk = 0 AND old.staged_at <= ?5
);

-- name: next_chunk
SELECT part, chunk, count, parcels, parcels_crc = crc32(parcels) FROM stage
WHERE target = ? AND name = ? ORDER BY part, chunk LIMIT 1;

-- name: set_chunk_aside
INSERT OR REPLACE INTO quarantine (last, queue, count, start, at)
SELECT -rowid, 0, count, NULL, ?5 FROM stage WHERE target = ?1 AND name = ?2 AND part = ?3 AND chunk = ?4;

-- name: delete_chunk
DELETE FROM stage WHERE target = ? AND name = ? AND part = ? AND chunk = ?;

-- name: staged
-- Chunks that are alike in number are counted together; `head` says how many parcels each of them has.
SELECT target, name, count, substr(parcels, 1, 6) AS head, count(*), sum(length(parcels)) FROM stage
WHERE target IN (SELECT value FROM json_each(?)) GROUP BY target, name, count, head;

-- name: forget_stages
-- Chunks of the oldest stage, its first one last: while any is left, it says that the stage is too old.
DELETE FROM stage WHERE rowid IN (
    SELECT rowid FROM stage WHERE (target, name) = (
        SELECT target, name FROM stage LEFT JOIN landing USING (target, name)
        WHERE staged_at <= ? AND landing.id IS NULL ORDER BY staged_at LIMIT 1
    ) ORDER BY staged_at DESC, part, chunk LIMIT ?
);

-- name: old_stages
SELECT EXISTS (SELECT 1 FROM stage LEFT JOIN landing USING (target, name) WHERE staged_at <= ? AND landing.id IS NULL)
    OR EXISTS (SELECT 1 FROM publication WHERE published_at <= ?);

-- name: add_landing
INSERT INTO landing (id, target, name, published_at, principal, keys, crc)
SELECT id, ?1, ?2, ?3, ?4, ?5, crc(id, ?1, ?2, ?3, ?4, ?5) FROM (SELECT coalesce(max(id), 0) + 1 AS id FROM landing);

-- name: next_landing
SELECT id, target, name, published_at, principal, crc = crc(id, target, name, published_at, principal, keys)
FROM landing ORDER BY id LIMIT 1;

-- name: delete_landing
DELETE FROM landing WHERE id = ?;

-- name: landing_keys
SELECT keys, crc = crc(id, target, name, published_at, principal, keys) FROM landing;

-- name: read_publication
SELECT series, number, count, published_at, crc = crc(target, series, number, count, published_at)
FROM publication WHERE target = ? AND series = ?;

-- name: put_publication
INSERT OR REPLACE INTO publication (target, series, number, count, published_at, crc)
VALUES (?1, ?2, ?3, ?4, ?5, crc(?1, ?2, ?3, ?4, ?5));

-- name: forget_publications
DELETE FROM publication WHERE (target, series) IN (
    SELECT target, series FROM publication WHERE published_at <= ? ORDER BY published_at LIMIT ?
);

-- name: packs_of_row
-- Without an index: it is asked for when a row is damaged.
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE start = ?;

-- name: singles_of_row
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE start = ? OR seq = ?;

-- name: set_aside
INSERT OR REPLACE INTO quarantine (last, queue, count, start, at) VALUES (?, ?, ?, ?, ?);

-- name: packs_waiting_again
-- What has been tried and waits, the longest wait first.
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE queue = ? AND state = 0 AND attempts > 0 AND due_at <= ? ORDER BY due_at DESC, last DESC;

-- name: singles_waiting_again
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE queue = ? AND state = 0 AND attempts > 0 AND (due_at, seq) < (?, ?)
ORDER BY due_at DESC, seq DESC LIMIT ?;

-- name: pack_row
SELECT last, queue, state, due_at, attempts, lease_no, entered_at, count, remaining, bytes, start, position, turn, gone, crc
FROM pack WHERE last = ?;

-- name: single_row
SELECT seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, size, given, id,
       content_type, attributes, grp, trace, origin, death, start, position, turn, crc
FROM message WHERE seq = ?;

-- name: regroup
-- The groups of a FIFO queue from its messages; `due_at` is that of the first.
INSERT INTO fifo (queue, grp, leased, head, available_at)
SELECT queue, grp, leased, head, CASE WHEN leased = 0 THEN due_at END FROM (
    SELECT queue, grp, sum(state = 2) AS leased, min(seq) AS head, due_at
    FROM message WHERE queue = ? AND grp IS NOT NULL GROUP BY queue, grp
);

-- name: rewrite_journal
UPDATE journal SET crc = ?, head = ?, events = ? WHERE start = ?;

-- name: keep_bodies
UPDATE retained SET kept = ? WHERE start = ?;

-- name: journal_from
SELECT start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, events
FROM journal WHERE start >= ? ORDER BY start LIMIT ?;

-- name: set_next_numbers
UPDATE journal SET next_seq = ?1, next_lease = ?2,
                   head = crc(start, count, at, ?1, ?2, private, first_seq, last_seq, crc);

-- name: journal_before
SELECT start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc, head, events
FROM journal WHERE start < ? ORDER BY start DESC LIMIT 10;

-- name: other_before
SELECT start, count, at, 1, 1, 0, NULL, NULL, crc, head, events
FROM other_lane WHERE start < ? ORDER BY start DESC LIMIT 10;
