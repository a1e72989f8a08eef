-- name: outbox_id
SELECT outbox_id FROM workorders.outbox_identity

-- name: marker_key
SELECT marker_key FROM workorders.outbox_secrets

-- name: record_identity
UPDATE workorders.outbox_identity
SET shards = coalesce(shards, %(shards)s),
    transactional_id_prefix = coalesce(transactional_id_prefix, %(transactional_id_prefix)s),
    cluster_id = %(cluster_id)s, markers_topic = %(markers_topic)s, markers_topic_id = %(markers_topic_id)s
WHERE cluster_id IS NULL

-- name: identity
SELECT shards, transactional_id_prefix, cluster_id, markers_topic, markers_topic_id FROM workorders.outbox_identity

-- name: save_settings
UPDATE workorders.outbox_settings
SET max_message_bytes = %(max_message_bytes)s, only_listed_topics = %(only_listed_topics)s
WHERE (max_message_bytes, only_listed_topics) IS DISTINCT FROM (%(max_message_bytes)s, %(only_listed_topics)s)

-- name: save_topic
INSERT INTO workorders.outbox_topics AS known (topic, max_message_bytes)
VALUES (%(topic)s, %(max_message_bytes)s)
ON CONFLICT (topic) DO UPDATE SET max_message_bytes = excluded.max_message_bytes
WHERE known.max_message_bytes IS DISTINCT FROM excluded.max_message_bytes

-- name: forget_topics
DELETE FROM workorders.outbox_topics WHERE topic <> ALL (%(topics)s)

-- name: lease
-- Free, or left by an owner who has not renewed it in time; the epoch fences that owner wherever it still is.
UPDATE workorders.outbox_shards
SET epoch = epoch + 1, owner = %(owner)s,
    leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE shard = %(shard)s AND (owner IS NULL OR leased_until < clock_timestamp())
RETURNING epoch

-- name: renew
UPDATE workorders.outbox_shards SET leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL

-- name: release
UPDATE workorders.outbox_shards SET owner = NULL, leased_until = NULL WHERE shard = %(shard)s AND epoch = %(epoch)s

-- name: note_error
UPDATE workorders.outbox_shards SET last_error = %(error)s
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL

-- name: clear_error
UPDATE workorders.outbox_shards SET last_error = NULL
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL AND last_error IS NOT NULL

-- name: take_number
-- The one gate of every write for a shard: with another epoch, nothing is changed.
UPDATE workorders.outbox_shards
SET last_batch = last_batch + 1, marked_batch = coalesce(%(sent_batch)s::bigint, marked_batch),
    leased_until = clock_timestamp() + make_interval(secs => %(seconds)s),
    -- What came to Kafka shows that the shard works.
    last_error = CASE WHEN %(sent_batch)s::bigint IS NULL THEN last_error END
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL
RETURNING last_batch

-- name: hold_shard
-- The same gate where no number is needed.
SELECT shard FROM workorders.outbox_shards
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL FOR UPDATE

-- name: open_claims
SELECT batch, sum(cardinality(ids))::bigint FROM workorders.outbox_claims
WHERE shard = %(shard)s GROUP BY batch ORDER BY batch

-- name: accept_marker
-- After an operator's word: numbers go on behind what Kafka has.
UPDATE workorders.outbox_shards
SET last_batch = greatest(last_batch, %(batch)s), marked_batch = %(batch)s
WHERE shard = %(shard)s AND epoch = %(epoch)s

-- name: marked_batch
SELECT marked_batch FROM workorders.outbox_shards WHERE shard = %(shard)s

-- name: drop_claims
-- A row of a held key was out to be tried again. It steps aside once more, lest later ones of its key overtake it.
WITH dropped AS (
    DELETE FROM workorders.outbox_claims WHERE shard = %(shard)s RETURNING topic, bucket, ids
), found AS (
    SELECT hold.id AS hold_id, message.topic, message.bucket, message.id
    FROM dropped CROSS JOIN LATERAL unnest(dropped.ids) AS claimed (id)
    JOIN workorders.outbox_messages AS message
        ON message.topic = dropped.topic AND message.bucket = dropped.bucket AND message.id = claimed.id
    JOIN workorders.outbox_holds AS hold
        ON hold.topic = message.topic AND hold.bucket = message.bucket AND hold.key = message.key AND hold.kind = 'key'
    WHERE EXISTS (
        SELECT FROM workorders.outbox_holds AS held
        WHERE held.kind = 'key' AND held.topic = dropped.topic AND held.bucket = dropped.bucket
    )
    FOR KEY SHARE OF hold
), moved AS (
    DELETE FROM workorders.outbox_messages AS message USING found
    WHERE message.topic = found.topic AND message.bucket = found.bucket AND message.id = found.id
    RETURNING found.hold_id, message.*
)
INSERT INTO workorders.outbox_held
    (hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
SELECT hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM moved

-- name: keep_sent
INSERT INTO workorders.outbox_sent
    (id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
SELECT id, enqueued_at, event_id, timestamp_ms, partition, message.bucket, message.topic, key, value, headers
FROM workorders.outbox_claims AS claim JOIN workorders.outbox_messages AS message
    ON message.topic = claim.topic AND message.bucket = claim.bucket AND message.id = ANY (claim.ids)
WHERE claim.shard = %(shard)s AND claim.batch = %(batch)s

-- name: finish
WITH claim AS (
    DELETE FROM workorders.outbox_claims WHERE shard = %(shard)s AND batch = %(batch)s RETURNING topic, bucket, ids
), deleted AS (
    DELETE FROM workorders.outbox_messages AS message USING claim
    WHERE message.topic = claim.topic AND message.bucket = claim.bucket AND message.id = ANY (claim.ids)
)
INSERT INTO workorders.outbox_counters AS counter (topic, shard, sent, last_sent_at)
SELECT topic, %(shard)s, sum(cardinality(ids)), now() FROM claim GROUP BY topic
ON CONFLICT (topic, shard) DO UPDATE SET sent = counter.sent + excluded.sent, last_sent_at = excluded.last_sent_at

-- name: count_compacted
UPDATE workorders.outbox_counters
SET sent = sent - %(compacted)s, compacted = compacted + %(compacted)s
WHERE topic = %(topic)s AND shard = %(shard)s

-- name: count_failed
INSERT INTO workorders.outbox_counters AS counter (topic, shard, failed) VALUES (%(topic)s, %(shard)s, %(failed)s)
ON CONFLICT (topic, shard) DO UPDATE SET failed = counter.failed + excluded.failed

-- name: forget_sent
-- So many of the oldest, and none that another relay is just deleting.
DELETE FROM workorders.outbox_sent WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM workorders.outbox_sent WHERE sent_at < now() - make_interval(secs => %(seconds)s)
    ORDER BY sent_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
))

-- block: topic_is_not_waiting
-- A key waits while its topic is held. Once that is due as well, either may try for it: all that the topic has may
-- be of held keys.
NOT EXISTS (
    SELECT FROM workorders.outbox_holds AS of_topic WHERE of_topic.kind = 'topic' AND of_topic.topic = hold.topic
        AND (of_topic.next_try_at <= clock_timestamp()) IS NOT TRUE
)

-- name: anything
-- Something to send, or a hold whose time has come. Steps from one topic and bucket to the next by the index.
WITH RECURSIVE pair AS (
    (SELECT topic, bucket FROM workorders.outbox_messages ORDER BY topic, bucket LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket FROM pair CROSS JOIN LATERAL (
        SELECT message.topic, message.bucket FROM workorders.outbox_messages AS message
        WHERE (message.topic, message.bucket) > (pair.topic, pair.bucket)
        ORDER BY message.topic, message.bucket LIMIT 1
    ) AS following
)
SELECT EXISTS (
    SELECT FROM pair WHERE bucket = ANY (%(buckets)s) AND NOT EXISTS (
        SELECT FROM workorders.outbox_holds AS hold WHERE hold.kind = 'topic' AND hold.topic = pair.topic
    )
) OR EXISTS (
    SELECT FROM workorders.outbox_holds AS hold
    WHERE hold.next_try_at <= clock_timestamp() AND (
        hold.kind = 'key' AND hold.bucket = ANY (%(buckets)s) AND
        -- use: topic_is_not_waiting
        OR hold.kind = 'topic' AND EXISTS (SELECT FROM pair WHERE topic = hold.topic AND bucket = ANY (%(buckets)s))
    )
)

-- name: divert
-- Rows of held keys step aside, lest every claim read past them.
WITH RECURSIVE pair AS (
    (SELECT topic, bucket FROM workorders.outbox_holds WHERE kind = 'key' AND bucket = ANY (%(buckets)s)
     ORDER BY topic, bucket LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket FROM pair CROSS JOIN LATERAL (
        SELECT hold.topic, hold.bucket FROM workorders.outbox_holds AS hold
        WHERE hold.kind = 'key' AND hold.bucket = ANY (%(buckets)s)
            AND (hold.topic, hold.bucket) > (pair.topic, pair.bucket)
        ORDER BY hold.topic, hold.bucket LIMIT 1
    ) AS following
), found AS (
    SELECT hold.id AS hold_id, message.topic, message.bucket, message.id
    FROM pair CROSS JOIN LATERAL (
        SELECT ahead.topic, ahead.bucket, ahead.id, ahead.key FROM workorders.outbox_messages AS ahead
        WHERE ahead.topic = pair.topic AND ahead.bucket = pair.bucket ORDER BY ahead.id LIMIT %(messages)s
    ) AS message
    JOIN workorders.outbox_holds AS hold
        ON hold.kind = 'key' AND hold.topic = message.topic AND hold.bucket = message.bucket AND hold.key = message.key
    -- One that somebody just ends is waited for, and its rows stay where they are.
    FOR KEY SHARE OF hold
), moved AS (
    DELETE FROM workorders.outbox_messages AS message USING found
    WHERE message.topic = found.topic AND message.bucket = found.bucket AND message.id = found.id
    RETURNING found.hold_id, message.*
)
INSERT INTO workorders.outbox_held
    (hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
SELECT hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM moved

-- block: due
next_try_at <= clock_timestamp() AND (
    kind = 'key' AND bucket = ANY (%(buckets)s) AND
    -- use: topic_is_not_waiting
    -- A topic is tried by a shard that has messages of it.
    OR kind = 'topic' AND EXISTS (
        SELECT FROM workorders.outbox_messages AS message
        WHERE message.topic = hold.topic AND message.bucket = ANY (%(buckets)s)
    )
)

-- name: is_held_or_due
SELECT EXISTS (SELECT FROM workorders.outbox_holds WHERE kind = 'key' AND bucket = ANY (%(buckets)s))
    OR EXISTS (
        SELECT FROM workorders.outbox_holds AS hold WHERE
        -- use: due
    )

-- block: wanted
WITH RECURSIVE pair AS (
    (SELECT topic, bucket FROM workorders.outbox_messages ORDER BY topic, bucket LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket FROM pair CROSS JOIN LATERAL (
        SELECT message.topic, message.bucket FROM workorders.outbox_messages AS message
        WHERE (message.topic, message.bucket) > (pair.topic, pair.bucket)
        ORDER BY message.topic, message.bucket LIMIT 1
    ) AS following
), wanted AS (
    SELECT topic, bucket FROM pair
    WHERE bucket = ANY (%(buckets)s)
        AND (%(only)s::text IS NULL OR topic = %(only)s)
        AND topic <> ALL (%(without)s)
        AND (%(only)s::text IS NOT NULL OR NOT EXISTS (
            SELECT FROM workorders.outbox_holds AS hold WHERE hold.kind = 'topic' AND hold.topic = pair.topic
        ))
)

-- name: places
-- use: wanted
SELECT topic, bucket FROM wanted
ORDER BY row_number() OVER (PARTITION BY topic ORDER BY random()), random() LIMIT %(places)s

-- name: read
-- Topics share a batch evenly, and so do the buckets of a topic; within a bucket the oldest go first.
-- use: wanted
, share AS MATERIALIZED (
    SELECT topic, bucket,
        greatest(1, %(messages)s / (SELECT count(DISTINCT topic) FROM wanted) / count(*) OVER topics) AS messages,
        greatest(1, %(bytes)s / (SELECT count(DISTINCT topic) FROM wanted) / count(*) OVER topics) AS bytes
    FROM wanted WINDOW topics AS (PARTITION BY topic)
    -- Where more buckets wait than there is room for, each has its turn.
    ORDER BY random() LIMIT %(messages)s
)
-- Rows stream out as they are found: written down in the same statement, they would be copied on the way.
SELECT id, share.topic, key, value, headers, partition, timestamp_ms, CASE WHEN %(event_ids)s THEN event_id::text END,
    share.bucket
FROM share CROSS JOIN LATERAL (
    SELECT waiting.id, waiting.key, waiting.value, waiting.headers, waiting.partition, waiting.timestamp_ms,
        waiting.event_id, sum(size.bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size.bytes AS bytes_before
    FROM workorders.outbox_messages AS waiting CROSS JOIN LATERAL (
        SELECT coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0)
            + coalesce(octet_length(headers::text), 0) AS bytes
    ) AS size
    WHERE waiting.topic = share.topic AND waiting.bucket = share.bucket
    ORDER BY id LIMIT share.messages
) AS message
WHERE bytes_before < share.bytes AND NOT EXISTS (
    SELECT FROM workorders.outbox_holds AS hold
    WHERE hold.kind = 'key' AND hold.topic = share.topic AND hold.bucket = share.bucket AND hold.key = message.key
)

-- name: read_ahead
-- For a cursor, whose reader stops where it likes: no sum of bytes is needed, but no row may be larger than `most`.
-- One that is comes without its id and without what makes it large.
SELECT CASE WHEN small THEN id END, topic, CASE WHEN small THEN key END, CASE WHEN small THEN value END,
    CASE WHEN small THEN headers END, partition, timestamp_ms, CASE WHEN %(event_ids)s THEN event_id::text END, bucket
FROM (
    SELECT *, coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0)
        + coalesce(octet_length(headers::text), 0) <= %(most)s AS small
    FROM workorders.outbox_messages
    WHERE topic = %(topic)s AND bucket = %(bucket)s AND id <> ALL (%(under_way)s::bigint[])
    -- With an offset, what is small is worked out once a row, and not at each use.
    ORDER BY id OFFSET 0
) AS waiting

-- name: write_claim
INSERT INTO workorders.outbox_claims (shard, batch, topic, bucket, ids)
VALUES (%(shard)s, %(batch)s, %(topic)s, %(bucket)s, %(ids)s::text::bigint[])

-- name: claim_head_of_held
-- The oldest row of a held key tries again, alone.
WITH head AS (
    SELECT id FROM workorders.outbox_held WHERE hold_id = %(hold)s ORDER BY id LIMIT 1
), back AS (
    DELETE FROM workorders.outbox_held AS held USING head WHERE held.hold_id = %(hold)s AND held.id = head.id
    RETURNING held.*
), waiting AS (
    INSERT INTO workorders.outbox_messages
        (id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
    OVERRIDING SYSTEM VALUE
    SELECT id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM back
    RETURNING id, topic, bucket, key, value, headers, partition, timestamp_ms, event_id
)
SELECT id, topic, key, value, headers, partition, timestamp_ms, event_id::text, bucket FROM waiting

-- name: due_holds
SELECT id, kind, topic, tries FROM workorders.outbox_holds AS hold WHERE
-- use: due
ORDER BY next_try_at

-- name: hold_topic
INSERT INTO workorders.outbox_holds AS hold (kind, topic, reason, next_try_at)
VALUES ('topic', %(topic)s, %(reason)s, clock_timestamp() + interval '1 minute')
ON CONFLICT (topic) WHERE kind = 'topic' DO UPDATE
SET reason = excluded.reason, tries = hold.tries + 1,
    next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
-- Each shard meets the same failure; the first one has set the time of the next try.
WHERE hold.next_try_at <= clock_timestamp()

-- name: hold_key
INSERT INTO workorders.outbox_holds AS hold (kind, topic, bucket, key, reason, next_try_at)
SELECT 'key', topic, bucket, key, %(reason)s, clock_timestamp() + interval '1 minute'
FROM workorders.outbox_messages WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s
ON CONFLICT (topic, bucket, sha256(key)) WHERE kind = 'key' DO UPDATE
SET reason = excluded.reason, tries = hold.tries + 1,
    next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
RETURNING id

-- name: hold_message
INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason)
SELECT 'message', topic, bucket, key, %(reason)s
FROM workorders.outbox_messages WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s
RETURNING id

-- name: step_aside
WITH gone AS (
    DELETE FROM workorders.outbox_messages
    WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s RETURNING *
)
INSERT INTO workorders.outbox_held
    (hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
SELECT %(hold)s, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM gone

-- name: row_comes_back
-- One that was out to be tried again, and has stepped aside once more.
WITH back AS (
    DELETE FROM workorders.outbox_held AS held USING workorders.outbox_holds AS hold
    WHERE hold.kind = 'key' AND hold.topic = %(topic)s AND hold.bucket = ANY (%(buckets)s)
        AND held.hold_id = hold.id AND held.id = %(id)s
    RETURNING held.*
)
INSERT INTO workorders.outbox_messages
    (id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
OVERRIDING SYSTEM VALUE
SELECT id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM back

-- name: lock_hold
SELECT kind, topic FROM workorders.outbox_holds WHERE id = %(hold)s FOR UPDATE

-- name: rows_come_back
WITH back AS (DELETE FROM workorders.outbox_held WHERE hold_id = %(hold)s RETURNING *)
INSERT INTO workorders.outbox_messages
    (id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
OVERRIDING SYSTEM VALUE
SELECT id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM back

-- name: end_hold
DELETE FROM workorders.outbox_holds WHERE id = %(hold)s

-- name: end_hold_of_topic
DELETE FROM workorders.outbox_holds WHERE kind = 'topic' AND topic = %(topic)s
