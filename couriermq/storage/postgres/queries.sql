-- Tables here are empty one minute and full the next, and a plan that was made in one minute is used in the next: so a
-- query leaves the planner no choice but the index that leads to what it names. It takes whole indexes where their order
-- seems of use: for a join (`= ANY (ARRAY[...])` can only be looked up), or for sorting (`+ 0` is no index's order, but of
-- those that were made for it). LIMIT in a LATERAL keeps it from turning a join around.

-- name: lock
-- Nobody else holds this lock until the transaction ends.
SELECT pg_advisory_xact_lock((:space)::int, key) FROM unnest((:keys)::int[]) AS key ORDER BY key;

-- name: enter
-- The control plane stays as it is until the transaction ends; fails where it is not the one that is known.
SELECT enter((:space)::int, :version);

-- name: seal
-- Figures and events of a transaction, which is about to be committed.
SELECT seal((:space)::int, (:keys)::int[], (:ready)::bigint[], (:delayed)::bigint[], (:leased)::bigint[],
            (:bytes)::bigint[], (:sent)::bigint[], (:acked)::bigint[], (:dead)::bigint[], (:counts)::int[],
            (:ats)::bigint[], (:events)::bytea[]);

-- name: database_now
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: catalog_version
SELECT coalesce((SELECT convert_from(value, 'UTF8')::bigint FROM meta WHERE name = 'catalog_version'), 0);

-- name: put_catalog_version
INSERT INTO meta (name, value) VALUES ('catalog_version', convert_to((:version)::text, 'UTF8'))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: due
-- Whatever time has done to these queues, up to `:step` messages of a kind, each kind with its number: leases that
-- ended, messages that are too old by the queue's retention or by their own, delays that ended. What another node has
-- locked is in good hands.
SELECT due.* FROM unnest((:keys)::int[], (:nows)::bigint[], (:untils)::bigint[], (:since)::bigint[])
    AS k (queue, now, until, since),
LATERAL (
    SELECT 0 AS kind, * FROM (
        SELECT {facts} FROM message
        WHERE message.queue = k.queue AND state = 2 AND due_at <= k.now AND due_at >= k.since
        ORDER BY due_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS ended
    UNION ALL SELECT 1, * FROM (
        SELECT {facts} FROM message WHERE message.queue = k.queue AND discard_at IS NULL AND entered_at <= k.until
        ORDER BY entered_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS aged
    UNION ALL SELECT 1, * FROM (
        SELECT {facts} FROM message WHERE message.queue = k.queue AND discard_at IS NOT NULL AND discard_at <= k.now
        ORDER BY discard_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS aged_by_itself
    UNION ALL SELECT 2, * FROM (
        SELECT {facts} FROM message
        WHERE message.queue = k.queue AND state = 0 AND due_at <= k.now AND due_at >= k.since
        ORDER BY due_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS delayed
) AS due;

-- name: aged_bundles
-- Bundles with messages that are too old.
SELECT b.* FROM unnest((:keys)::int[], (:untils)::bigint[]) AS k (queue, until), LATERAL (
    SELECT {bundle} FROM bundle WHERE bundle.queue = k.queue AND entered_at <= k.until
    ORDER BY entered_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
) AS b;

-- name: due_held
-- Of what was leased together: leases that ended, and messages that are too old.
SELECT h.* FROM unnest((:keys)::int[], (:nows)::bigint[], (:untils)::bigint[], (:since)::bigint[])
    AS k (queue, now, until, since),
LATERAL (
    SELECT * FROM (
        SELECT {held} FROM held WHERE held.queue = k.queue AND due_at <= k.now AND due_at >= k.since
        ORDER BY due_at LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS ended
    UNION ALL SELECT * FROM (
        SELECT {held} FROM held WHERE held.queue = k.queue AND entered_at <= k.until
        ORDER BY entered_at, seq LIMIT :step FOR UPDATE SKIP LOCKED
    ) AS aged
) AS h;

-- name: next_due
-- When time will next change each of these queues.
SELECT k.queue, least(
    (SELECT due_at FROM message WHERE message.queue = k.queue AND state = 0 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM message WHERE message.queue = k.queue AND state = 2 ORDER BY due_at LIMIT 1),
    (SELECT discard_at FROM message WHERE message.queue = k.queue AND discard_at IS NOT NULL
     ORDER BY discard_at LIMIT 1),
    (SELECT entered_at FROM message WHERE message.queue = k.queue AND discard_at IS NULL
     ORDER BY entered_at LIMIT 1) + k.retention,
    (SELECT entered_at FROM bundle WHERE bundle.queue = k.queue ORDER BY entered_at LIMIT 1) + k.retention,
    (SELECT due_at FROM held WHERE held.queue = k.queue ORDER BY due_at LIMIT 1),
    (SELECT entered_at FROM held WHERE held.queue = k.queue ORDER BY entered_at LIMIT 1) + k.retention
) FROM unnest((:keys)::int[], (:retentions)::bigint[]) AS k (queue, retention);

-- name: first_ends
-- When the first lease or delay of each of these queues ends.
SELECT k.queue, least(
    (SELECT due_at FROM message WHERE message.queue = k.queue AND state = 0 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM message WHERE message.queue = k.queue AND state = 2 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM held WHERE held.queue = k.queue ORDER BY due_at LIMIT 1)
) FROM unnest((:keys)::int[]) AS k (queue);

-- name: tallies
-- Every queue that has had a message: how many are ready, and how many will be by themselves. From newest to newest, so
-- that dead rows cost nothing.
WITH RECURSIVE newest AS (
    (SELECT queue, ready, delayed, leased FROM tally ORDER BY queue DESC, version DESC LIMIT 1)
    UNION ALL
    SELECT below.* FROM newest, LATERAL (
        SELECT queue, ready, delayed, leased FROM tally WHERE tally.queue < newest.queue
        ORDER BY queue DESC, version DESC LIMIT 1
    ) AS below
) SELECT queue, ready, delayed + leased FROM newest;

-- name: claim
-- One claim for all who wait at this node, longest ready first. Beyond the budget messages come without their content.
SELECT {facts}, CASE WHEN total <= :budget OR total = octet_length(content) THEN content END FROM (
    SELECT m.*, sum(octet_length(m.content)) OVER (ORDER BY k.place, m.due_at, m.seq) AS total
    FROM unnest((:keys)::int[], (:limits)::int[], (:ready_since)::bigint[]) WITH ORDINALITY
        AS k (queue, most, since, place),
    LATERAL (
        SELECT {whole} FROM message WHERE message.queue = k.queue AND state = 1 AND due_at >= k.since
        ORDER BY due_at, seq LIMIT k.most FOR UPDATE SKIP LOCKED
    ) AS m
) AS claimed ORDER BY total;

-- name: claim_bundles
SELECT * FROM claim_bundles((:keys)::int[], (:limits)::int[], (:since)::bigint[], (:budget)::bigint);

-- name: ack
-- The shortest way of an ack: what is leased under that number, and neither its lease nor it itself has come to its end.
-- Each is found by its seq: `+ 0` keeps the planner from going through all that the queue has leased.
DELETE FROM message
USING unnest((:seqs)::bigint[], (:keys)::int[], (:lease_nos)::int[], (:nows)::bigint[], (:untils)::bigint[])
    AS k (key, place, number, now, until)
WHERE seq = ANY (ARRAY[k.key]) AND queue + 0 = k.place AND state + 0 = 2 AND lease_no = k.number AND due_at > k.now
  AND CASE WHEN discard_at IS NULL THEN entered_at > k.until ELSE discard_at > k.now END
RETURNING {facts};

-- name: claim_groups
-- The heads of FIFO groups that nobody holds; the queues are locked.
SELECT g.queue, g.grp, m.seq, m.state, m.weight
FROM unnest((:keys)::int[], (:nows)::bigint[], (:limits)::int[], (:rooms)::int[]) AS k (queue, now, most, room),
LATERAL (
    SELECT fifo.queue, grp, available_at, head FROM fifo
    WHERE fifo.queue = k.queue AND available_at IS NOT NULL AND available_at <= k.now
    ORDER BY available_at, head LIMIT k.most
) AS g,
LATERAL (
    SELECT seq, state, octet_length(content) AS weight FROM message
    WHERE message.queue = g.queue AND message.grp = g.grp ORDER BY seq + 0 LIMIT k.room
) AS m
ORDER BY g.queue, g.available_at, g.head, m.seq;

-- name: named
-- Messages by seq, locked in the order of their seqs.
SELECT {facts} FROM message WHERE seq = ANY ((:seqs)::bigint[]) ORDER BY seq FOR UPDATE;

-- name: named_whole
SELECT {whole} FROM message WHERE seq = ANY ((:seqs)::bigint[]) ORDER BY seq FOR UPDATE;

-- name: having_copies
SELECT DISTINCT origin FROM message WHERE origin = ANY ((:origins)::bigint[]);

-- name: locked_page
-- A queue's messages in the order in which they came into it, after (:entered_at, :seq).
SELECT {facts} FROM message
WHERE seq = ANY (ARRAY(
    SELECT seq FROM (
        (SELECT seq, entered_at FROM message
         WHERE queue = :queue AND discard_at IS NULL AND (entered_at, seq) > (:entered_at, :seq)
         ORDER BY entered_at, seq LIMIT :limit)
        UNION ALL
        (SELECT seq, entered_at FROM message
         WHERE queue = :queue AND discard_at IS NOT NULL AND (entered_at, seq) > (:entered_at, :seq)
         ORDER BY entered_at, seq LIMIT :limit)
    ) AS both_kinds ORDER BY entered_at, seq LIMIT :limit
)) AND queue = :queue ORDER BY entered_at, seq FOR UPDATE;

-- name: waiting_again
-- What has been tried and waits, before (:due_at, :seq), the longest wait first.
SELECT {facts} FROM message
WHERE queue = :queue AND state = 0 AND attempts > 0 AND (due_at, seq) < ((:due_at)::bigint, (:seq)::bigint)
ORDER BY due_at DESC, seq DESC LIMIT :limit FOR UPDATE;

-- name: page
-- The first message beyond the budget, and those after it, come without their content.
SELECT {facts}, CASE WHEN total <= :budget OR total = octet_length(content) THEN content END FROM (
    SELECT *, sum(octet_length(content)) OVER (ORDER BY entered_at, seq) AS total FROM (
        (SELECT {whole} FROM message
         WHERE queue = :queue AND discard_at IS NULL AND (entered_at, seq) > (:entered_at, :seq)
         ORDER BY entered_at, seq LIMIT :limit)
        UNION ALL
        (SELECT {whole} FROM message
         WHERE queue = :queue AND discard_at IS NOT NULL AND (entered_at, seq) > (:entered_at, :seq)
         ORDER BY entered_at, seq LIMIT :limit)
    ) AS both_kinds
) AS measured ORDER BY entered_at, seq LIMIT :limit;

-- name: bundle_page
-- Bundles with messages after (:entered_at, :seq); they may begin a little before.
SELECT entered_at, {bundle} FROM bundle
WHERE queue = :queue AND entered_at >= (:entered_at)::bigint - :span AND (newest_at, last) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit;

-- name: locked_bundle_page
SELECT entered_at, {bundle} FROM bundle
WHERE queue = :queue AND entered_at >= (:entered_at)::bigint - :span AND (newest_at, last) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit FOR UPDATE;

-- name: bundles_of
-- The bundles that may hold these messages; what several nodes send at the same time can overlap a little.
SELECT {bundle} FROM bundle WHERE ctid = ANY (ARRAY(
    SELECT near.ctid FROM unnest((:seqs)::bigint[]) AS named (seq), LATERAL (
        SELECT ctid, last FROM bundle WHERE queue = :queue AND bundle.seq <= named.seq ORDER BY bundle.seq DESC LIMIT 8
    ) AS near WHERE near.last >= named.seq
)) ORDER BY seq;

-- name: locked_bundles_of
SELECT {bundle} FROM bundle WHERE ctid = ANY (ARRAY(
    SELECT near.ctid FROM unnest((:seqs)::bigint[]) AS named (seq), LATERAL (
        SELECT ctid, last FROM bundle WHERE queue = :queue AND bundle.seq <= named.seq ORDER BY bundle.seq DESC LIMIT 8
    ) AS near WHERE near.last >= named.seq
)) ORDER BY seq FOR UPDATE;

-- name: insert_bundles
-- By subscript, because a table of many arrays (unnest) is first written down column by column.
INSERT INTO bundle (queue, seq, last, entered_at, newest_at, count, bytes, seqs, ids, ats, sizes, contents)
SELECT ((:queue)::int[])[n], ((:first)::bigint[])[n], ((:last)::bigint[])[n], ((:entered_at)::bigint[])[n],
       ((:newest_at)::bigint[])[n], ((:message_count)::int[])[n], ((:byte_count)::bigint[])[n], ((:seqs)::bytea[])[n],
       ((:ids)::bytea[])[n], ((:ats)::bytea[])[n], ((:sizes)::bytea[])[n], ((:contents)::bytea[])[n]
FROM generate_subscripts((:queue)::int[], 1) AS n;

-- name: delete_bundles
-- Whichever index the planner takes, it leads to one entry.
DELETE FROM bundle WHERE ctid = ANY (ARRAY(
    SELECT found.ctid FROM unnest((:queues)::int[], (:entered_ats)::bigint[], (:seqs)::bigint[]) AS k (place, at, key),
    LATERAL (SELECT ctid FROM bundle WHERE queue = place AND entered_at = at AND seq = key LIMIT 1) AS found
));

-- name: insert_held
INSERT INTO held (queue, lease_no, due_at, seq, last, entered_at, newest_at, count, bytes, seqs, ids, ats, sizes,
                  contents)
SELECT ((:queue)::int[])[n], ((:lease_no)::int[])[n], ((:due_at)::bigint[])[n], ((:first)::bigint[])[n],
       ((:last)::bigint[])[n], ((:entered_at)::bigint[])[n], ((:newest_at)::bigint[])[n],
       ((:message_count)::int[])[n], ((:byte_count)::bigint[])[n], ((:seqs)::bytea[])[n], ((:ids)::bytea[])[n],
       ((:ats)::bytea[])[n], ((:sizes)::bytea[])[n], ((:contents)::bytea[])[n]
FROM generate_subscripts((:queue)::int[], 1) AS n;

-- name: held_facts
-- What was leased together under these numbers, without what the messages say.
SELECT queue, lease_no, due_at, seqs, ids, ats, sizes, places, NULL::bytea
FROM unnest((:queues)::int[], (:lease_nos)::int[]) AS k (place, number)
JOIN held ON queue + 0 = place AND lease_no = ANY (ARRAY[number]) ORDER BY queue + 0, lease_no FOR UPDATE OF held;

-- name: held_whole
SELECT {held}
FROM unnest((:queues)::int[], (:lease_nos)::int[]) AS k (place, number)
JOIN held ON queue + 0 = place AND lease_no = ANY (ARRAY[number]) ORDER BY queue + 0, lease_no FOR UPDATE OF held;

-- name: change_held
UPDATE held SET seq = new.seq, last = new.last, entered_at = new.entered_at, newest_at = new.newest_at,
                count = new.count, bytes = new.bytes, seqs = new.seqs, ids = new.ids, ats = new.ats,
                sizes = new.sizes, places = new.places
FROM unnest((:queue)::int[], (:lease_no)::int[], (:first)::bigint[], (:last)::bigint[], (:entered_at)::bigint[],
            (:newest_at)::bigint[], (:message_count)::int[], (:byte_count)::bigint[], (:seqs)::bytea[],
            (:ids)::bytea[], (:ats)::bytea[], (:sizes)::bytea[], (:places)::bytea[])
    AS new (place, number, seq, last, entered_at, newest_at, count, bytes, seqs, ids, ats, sizes, places)
WHERE held.queue + 0 = place AND held.lease_no = ANY (ARRAY[number]);

-- name: delete_held
DELETE FROM held USING unnest((:queues)::int[], (:lease_nos)::int[]) AS k (place, number)
WHERE queue + 0 = place AND lease_no = ANY (ARRAY[number]);

-- name: held_page
-- What was leased together with messages after (:entered_at, :seq); it may begin before.
SELECT seq, entered_at, {held} FROM held WHERE held.queue = :queue AND (newest_at, last) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit;

-- name: locked_held_page
SELECT seq, entered_at, {held} FROM held WHERE held.queue = :queue AND (newest_at, last) > (:entered_at, :seq)
ORDER BY entered_at, seq LIMIT :limit FOR UPDATE;

-- name: held_of
-- What was leased together and may hold these messages.
SELECT {held} FROM held WHERE held.queue = :queue AND EXISTS (
    SELECT FROM unnest((:seqs)::bigint[]) AS named (number) WHERE number BETWEEN held.seq AND held.last
);

-- name: locked_held_of
SELECT {held} FROM held WHERE held.queue = :queue AND EXISTS (
    SELECT FROM unnest((:seqs)::bigint[]) AS named (number) WHERE number BETWEEN held.seq AND held.last
) ORDER BY lease_no FOR UPDATE;

-- name: of_id
-- Messages of one id: the senders' own, and the one that a minted id leads to.
(SELECT {whole} FROM message WHERE queue = :queue AND given AND id = :id AND seq > :after ORDER BY seq LIMIT :limit)
UNION
(SELECT {whole} FROM message WHERE queue = :queue AND seq = :minted AND seq > :after)
ORDER BY seq LIMIT :limit;

-- name: next_seqs
SELECT array_agg(nextval('message_seq')) FROM generate_series(1, (:count)::int);

-- name: last_seq
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM message_seq;

-- name: next_key
SELECT nextval('queue_key');

-- name: insert_messages
INSERT INTO message (seq, queue, state, size, due_at, entered_at, discard_at, origin, given, id, grp, content,
                     attempts, lease_no, death)
SELECT * FROM unnest((:seqs)::bigint[], (:queues)::int[], (:states)::smallint[], (:sizes)::int[], (:due_ats)::bigint[],
                     (:entered_ats)::bigint[], (:discard_ats)::bigint[], (:origins)::bigint[], (:givens)::boolean[],
                     (:ids)::bytea[], (:grps)::bytea[], (:contents)::bytea[], (:attempts)::int[],
                     (:lease_nos)::int[], (:deaths)::bytea[]);

-- name: change_messages
-- A lease, its end, an extension: all that changes while a message stays in its queue.
UPDATE message SET state = new.state, due_at = new.due_at, attempts = new.attempts, lease_no = new.lease_no
FROM unnest((:seqs)::bigint[], (:states)::smallint[], (:due_ats)::bigint[], (:attempts)::int[], (:lease_nos)::int[])
    AS new (seq, state, due_at, attempts, lease_no)
WHERE message.seq = ANY (ARRAY[new.seq]);

-- name: transfer_messages
-- Into another queue, as if they had just come: fresh attempts, that queue's retention.
UPDATE message SET queue = new.queue, state = new.state, due_at = new.due_at, attempts = new.attempts,
                   lease_no = new.lease_no, entered_at = new.entered_at, discard_at = NULL, grp = new.grp,
                   death = new.death
FROM unnest((:seqs)::bigint[], (:states)::smallint[], (:due_ats)::bigint[], (:attempts)::int[], (:lease_nos)::int[],
            (:queues)::int[], (:entered_ats)::bigint[], (:grps)::bytea[], (:deaths)::bytea[])
    AS new (seq, state, due_at, attempts, lease_no, queue, entered_at, grp, death)
WHERE message.seq = ANY (ARRAY[new.seq]);

-- name: delete_messages
DELETE FROM message WHERE seq = ANY ((:seqs)::bigint[]);

-- name: drop_groups
-- Of these groups, those that have no message any more.
DELETE FROM fifo WHERE ctid = ANY (ARRAY(
    SELECT found.ctid FROM unnest((:keys)::int[], (:grps)::bytea[]) AS k (queue, grp),
    LATERAL (SELECT ctid FROM fifo WHERE fifo.queue = k.queue AND fifo.grp = k.grp LIMIT 1) AS found
    WHERE NOT EXISTS (SELECT FROM message WHERE message.queue = k.queue AND message.grp = k.grp)
));

-- name: refresh_groups
-- Unlocked once nothing of the group is leased, from the instant at which its head is ready.
INSERT INTO fifo (queue, grp, leased, head, available_at)
SELECT k.queue, k.grp, k.leased, m.seq, CASE WHEN k.leased = 0 THEN m.due_at END
FROM unnest((:keys)::int[], (:grps)::bytea[], (:leased)::int[]) AS k (queue, grp, leased), LATERAL (
    SELECT seq, due_at FROM message WHERE message.queue = k.queue AND message.grp = k.grp ORDER BY seq + 0 LIMIT 1
) AS m
ON CONFLICT (queue, grp) DO UPDATE SET
    leased = fifo.leased + excluded.leased,
    head = excluded.head,
    available_at = CASE WHEN fifo.leased + excluded.leased = 0 THEN
        (SELECT due_at FROM message WHERE message.seq = excluded.head) END;

-- name: delete_groups
DELETE FROM fifo WHERE queue = :queue;

-- name: read_dedup
SELECT found.* FROM unnest((:keys)::int[], (:ids)::bytea[]) AS k (queue, dedup_id), LATERAL (
    SELECT queue, dedup_id, until_at, seq, id FROM dedup
    WHERE dedup.queue = k.queue AND dedup.dedup_id = k.dedup_id LIMIT 1
) AS found;

-- name: put_dedup
INSERT INTO dedup (queue, dedup_id, until_at, seq, id)
SELECT * FROM unnest((:keys)::int[], (:dedup_ids)::bytea[], (:until_ats)::bigint[], (:seqs)::bigint[], (:ids)::bytea[])
ON CONFLICT (queue, dedup_id) DO UPDATE SET until_at = excluded.until_at, seq = excluded.seq, id = excluded.id;

-- name: forget_dedup
DELETE FROM dedup WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dedup WHERE until_at <= :now ORDER BY until_at LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: delete_tallies
DELETE FROM tally WHERE queue = :queue;

-- name: counters
SELECT ready, delayed, leased, bytes, sent, acked, dead, least(
    (SELECT entered_at FROM message WHERE queue = :queue AND discard_at IS NULL ORDER BY entered_at LIMIT 1),
    (SELECT entered_at FROM message WHERE queue = :queue AND discard_at IS NOT NULL ORDER BY entered_at LIMIT 1),
    (SELECT entered_at FROM bundle WHERE queue = :queue ORDER BY entered_at LIMIT 1),
    (SELECT entered_at FROM held WHERE queue = :queue ORDER BY entered_at LIMIT 1)
) FROM tally WHERE queue = :queue ORDER BY version DESC LIMIT 1;

-- name: counters_of
-- The same of many queues, and whether time has done anything to each. Not with EXISTS, which may read whole tables to
-- hash them.
SELECT k.queue,
    coalesce(
        (SELECT true FROM message WHERE queue = k.queue AND state = 2 AND due_at <= (:now)::bigint LIMIT 1),
        (SELECT true FROM message WHERE queue = k.queue AND state = 0 AND due_at <= (:now)::bigint LIMIT 1),
        (SELECT true FROM message WHERE queue = k.queue AND discard_at IS NOT NULL AND discard_at <= (:now)::bigint
         LIMIT 1),
        (SELECT true FROM message WHERE queue = k.queue AND discard_at IS NULL AND entered_at <= k.until LIMIT 1),
        (SELECT true FROM bundle WHERE queue = k.queue AND entered_at <= k.until LIMIT 1),
        (SELECT true FROM held WHERE queue = k.queue AND due_at <= (:now)::bigint LIMIT 1),
        (SELECT true FROM held WHERE queue = k.queue AND entered_at <= k.until LIMIT 1),
        false
    ),
    coalesce(t.ready, 0), coalesce(t.delayed, 0), coalesce(t.leased, 0), coalesce(t.bytes, 0), coalesce(t.sent, 0),
    coalesce(t.acked, 0), coalesce(t.dead, 0), least(
        (SELECT entered_at FROM message WHERE queue = k.queue AND discard_at IS NULL ORDER BY entered_at LIMIT 1),
        (SELECT entered_at FROM message WHERE queue = k.queue AND discard_at IS NOT NULL ORDER BY entered_at LIMIT 1),
        (SELECT entered_at FROM bundle WHERE queue = k.queue ORDER BY entered_at LIMIT 1),
        (SELECT entered_at FROM held WHERE queue = k.queue ORDER BY entered_at LIMIT 1)
    )
FROM unnest((:keys)::int[], (:untils)::bigint[]) AS k (queue, until) LEFT JOIN LATERAL (
    SELECT ready, delayed, leased, bytes, sent, acked, dead FROM tally WHERE queue = k.queue
    ORDER BY version DESC LIMIT 1
) AS t ON true;

-- name: span
SELECT (SELECT start FROM journal ORDER BY start LIMIT 1) AS oldest, start + count AS next
FROM journal ORDER BY start DESC LIMIT 1;

-- name: read_journal
-- Whole commits of about `budget` bytes; the first one whatever its size.
SELECT start, count, events FROM (
    SELECT *, sum(octet_length(events)) OVER (ORDER BY start) - octet_length(events) AS before FROM (
        SELECT start, count, events FROM journal
        WHERE start >= (SELECT start FROM journal WHERE start <= :offset ORDER BY start DESC LIMIT 1) AND start < :stop
        ORDER BY start LIMIT :limit
    ) AS next
) AS measured WHERE before < :budget ORDER BY start;

-- name: trim_journal
-- The newest commit stays: it holds the next offset.
DELETE FROM journal WHERE start + count <= :before AND start < :before
  AND start < (SELECT start FROM journal ORDER BY start DESC LIMIT 1);

-- name: offset_at
-- A later commit may tell of an earlier instant, such as the end of a lease: the lowest offset counts.
SELECT CASE WHEN at >= :at THEN start ELSE (SELECT min(start) FROM journal AS later WHERE later.at >= :at) END
FROM journal ORDER BY start LIMIT 1;

-- name: offset_keeping
-- The end of the newest commit that, with all that came after it, is too much.
SELECT max(start + count) FROM (
    SELECT start, count, sum(size) OVER (ORDER BY start DESC) AS kept FROM journal
) AS sizes WHERE kept > :size;

-- name: notify
SELECT pg_notify(:channel, :payload);

-- name: read_records
SELECT kind, tenant, id, slot, document, gone FROM record WHERE version > :version ORDER BY version;

-- name: doomed
SELECT document FROM record WHERE kind = 'doomed' AND NOT gone;

-- name: put_record
INSERT INTO record (kind, tenant, id, slot, document, version) VALUES (:kind, :tenant, :id, :slot, :document, :version)
ON CONFLICT (kind, tenant, id) DO UPDATE SET
    slot = excluded.slot, document = excluded.document, version = excluded.version, gone = FALSE;

-- name: delete_record
UPDATE record SET gone = TRUE, slot = NULL, version = :version WHERE kind = :kind AND tenant = :tenant AND id = :id;

-- name: doom_record
INSERT INTO record (kind, tenant, id, document, version) VALUES ('doomed', :tenant, :id, :document, :version)
ON CONFLICT DO NOTHING;

-- name: sweep_record
DELETE FROM record WHERE kind = 'doomed' AND tenant = :tenant AND id = :id;

-- name: forget_records
-- Every node that still lives has heard of these.
DELETE FROM record WHERE gone AND version < :version;

-- name: read_meta
SELECT value FROM meta WHERE name = :name;

-- name: add_meta
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING;

-- name: is_due
-- Whether time has done anything to a queue.
SELECT EXISTS (SELECT FROM message WHERE queue = :queue AND state = 2 AND due_at <= :now)
    OR EXISTS (SELECT FROM message WHERE queue = :queue AND state = 0 AND due_at <= :now)
    OR EXISTS (SELECT FROM message WHERE queue = :queue AND discard_at IS NOT NULL AND discard_at <= :now)
    OR EXISTS (SELECT FROM message WHERE queue = :queue AND discard_at IS NULL AND entered_at <= :until)
    OR EXISTS (SELECT FROM bundle WHERE queue = :queue AND entered_at <= :until)
    OR EXISTS (SELECT FROM held WHERE queue = :queue AND due_at <= :now)
    OR EXISTS (SELECT FROM held WHERE queue = :queue AND entered_at <= :until);

-- name: slot_owner
SELECT kind, tenant, id FROM record WHERE slot = :slot;

-- name: read_job
SELECT name, epoch, done, opened_at FROM job WHERE queue = :queue AND name = :job;

-- name: lock_job
SELECT name, epoch, done, opened_at FROM job WHERE queue = :queue AND name = :job FOR UPDATE;

-- name: read_jobs
SELECT name, epoch, done, opened_at FROM job WHERE queue = :queue ORDER BY name;

-- name: open_job
INSERT INTO job (queue, name, epoch, done, opened_at) VALUES (:queue, :job, 1, 0, :now)
ON CONFLICT (queue, name) DO UPDATE SET epoch = job.epoch + 1, opened_at = excluded.opened_at
RETURNING name, epoch, done, opened_at;

-- name: finish_claims
UPDATE job SET done = greatest(done, :upto) WHERE queue = :queue AND name = :job;

-- name: end_epoch
-- Every claim that there is, is over.
UPDATE job SET epoch = epoch + 1, done = greatest(done, coalesce((
    SELECT number FROM claim WHERE queue = :queue AND job = :job ORDER BY number DESC LIMIT 1
), 0)) WHERE queue = :queue AND name = :job RETURNING done;

-- name: read_claim
SELECT number, count, bytes, claimed_at, wanted, complete, fate FROM claim
WHERE queue = :queue AND job = :job AND number = :number;

-- name: held_claims
SELECT job, number, count, bytes, claimed_at FROM claim WHERE queue = :queue AND fate = 0 ORDER BY job, number;

-- name: put_claim
INSERT INTO claim (queue, job, number, wanted, complete, fate, count, bytes, claimed_at)
VALUES (:queue, :job, :number, :wanted, :complete, 0, :count, :bytes, :claimed_at)
ON CONFLICT (queue, job, number) DO UPDATE SET
    complete = excluded.complete, count = excluded.count, bytes = excluded.bytes;

-- name: decide_claims
UPDATE claim SET fate = :fate WHERE queue = :queue AND job = :job AND number <= :upto AND fate = 0;

-- name: decided_claim
-- One whose messages are still to be acked or released, and which no other node is at.
SELECT job, number, fate FROM claim WHERE queue = :queue AND fate <> 0 ORDER BY job, number LIMIT 1 FOR UPDATE;

-- name: decided_queues
SELECT DISTINCT queue FROM claim WHERE fate <> 0;

-- name: delete_claim
DELETE FROM claim WHERE queue = :queue AND job = :job AND number = :number;

-- name: insert_claim_part
INSERT INTO claim_part (queue, job, number, first, count, seqs)
VALUES (:queue, :job, :number, :first, :count, :seqs);

-- name: first_claim_part
SELECT first, seqs FROM claim_part WHERE queue = :queue AND job = :job AND number = :number ORDER BY first LIMIT 1;

-- name: claim_parts
SELECT first, seqs FROM claim_part
WHERE queue = :queue AND job = :job AND number = :number AND first < :stop AND first + count > :start ORDER BY first;

-- name: delete_claim_part
DELETE FROM claim_part WHERE queue = :queue AND job = :job AND number = :number AND first = :first;

-- name: claimed_messages
-- Of the named messages, in this order, those that are still held by a claim: about `budget` bytes of them.
SELECT {whole} FROM (
    SELECT *, sum(octet_length(content)) OVER (ORDER BY array_position((:seqs)::bigint[], seq)) - octet_length(content)
        AS before
    FROM message WHERE seq = ANY ((:seqs)::bigint[]) AND queue = :queue AND state = 2 AND due_at = :due_at
) AS claimed WHERE before < :budget ORDER BY before;

-- name: forget_claim_parts
DELETE FROM claim_part WHERE queue = :queue;

-- name: forget_claims
DELETE FROM claim WHERE queue = :queue;

-- name: forget_jobs
DELETE FROM job WHERE queue = :queue;

-- name: insert_chunk
INSERT INTO stage (target, name, part, chunk, count, staged_at, keys, parcels)
VALUES (:target, :name, :part, :chunk, :count, :now, :keys, :parcels) ON CONFLICT DO NOTHING;

-- name: lock_stage
-- Its chunks, in their order, without what is in them.
SELECT part, chunk, count FROM stage WHERE target = :target AND name = :name ORDER BY part, chunk FOR UPDATE;

-- name: stage_keys
SELECT DISTINCT keys FROM stage WHERE target = :target AND name = ANY (:names);

-- name: read_chunk
SELECT parcels FROM stage WHERE target = :target AND name = :name AND part = :part AND chunk = :chunk;

-- name: drop_stages
DELETE FROM stage WHERE target = :target AND name = ANY (:names);

-- name: staged
-- Chunks that are alike in number are counted together; `head` says how many parcels each of them has.
SELECT target, name, count, substring(parcels FROM 1 FOR 6) AS head, count(*), sum(octet_length(parcels))::bigint
FROM stage WHERE target = ANY (:targets) GROUP BY target, name, count, head;

-- name: forget_stages
DELETE FROM stage WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM stage WHERE staged_at <= :until ORDER BY staged_at LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: read_publication
SELECT series, number, count, published_at FROM publication WHERE target = :target AND series = :series;

-- name: begin_publication
-- The row is locked from here on, also where it was not there before.
INSERT INTO publication (target, series, number, count, published_at) VALUES (:target, :series, -1, 0, :now)
ON CONFLICT (target, series) DO UPDATE SET series = excluded.series
RETURNING series, number, count, published_at;

-- name: end_publication
UPDATE publication SET number = :number, count = :count, published_at = :now
WHERE target = :target AND series = :series;

-- name: forget_publications
DELETE FROM publication WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM publication WHERE published_at <= :until ORDER BY published_at LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: roster
-- Every node that says it lives, by its number, and whether its session has been silent for too long.
SELECT node.objid::bigint - 4294967296, node.pid,
       coalesce(extract(epoch FROM clock_timestamp() - session.state_change) > (:silent)::float, FALSE)
FROM pg_locks AS node LEFT JOIN LATERAL pg_stat_get_activity(node.pid) AS session ON TRUE
WHERE node.locktype = 'advisory' AND node.objsubid = 2 AND node.granted
  AND node.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND node.classid::bigint = (:space)::bigint & 4294967295
  AND node.objid::bigint BETWEEN 2147483648 AND 3221225471;

-- name: hold
-- Locks that last as long as the session.
SELECT pg_advisory_lock((:space)::int, key) FROM unnest((:keys)::int[]) AS key;

-- name: try_to_hold
SELECT key, pg_try_advisory_lock((:space)::int, key) FROM unnest((:keys)::int[]) AS key;

-- name: let_go
SELECT pg_advisory_unlock((:space)::int, key) FROM unnest((:keys)::int[]) AS key;

-- name: take
SELECT * FROM take((:space)::int, :version, (:ack_keys)::int[], (:ack_nos)::int[], (:ack_seqs)::bytea[],
                   (:ack_ats)::bigint[], (:ack_untils)::bigint[], (:keys)::int[], (:most)::int[], (:most_bytes)::int,
                   (:ready_since)::bigint[], (:bundle_since)::bigint[], (:budget)::bigint);
