-- name: insert
INSERT INTO workorders.kafka_virtual_partitions (batch_id, topic, partition, range_start, start_offset, end_offset)
VALUES (%(batch_id)s, %(topic)s, %(partition)s, %(range_start)s, %(start_offset)s, %(end_offset)s);

-- name: lock
SELECT finished_at IS NOT NULL, created, rejected, existing, filtered
FROM workorders.kafka_virtual_partitions
WHERE batch_id = %(batch_id)s
    AND (topic, partition, start_offset, end_offset)
        = (%(topic)s, %(partition)s, %(start_offset)s, %(end_offset)s)
FOR UPDATE;

-- name: finish
-- What is stored may now end after the ledger.
WITH stored AS (
    UPDATE workorders.kafka_ledger AS ledger
    SET stored_end = greatest(ledger.stored_end, %(end_offset)s)
    FROM workorders.kafka_ranges AS ranges
    WHERE ranges.batch_id = %(batch_id)s
        AND (ranges.topic, ranges.partition) = (%(topic)s, %(partition)s)
        AND (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
)
UPDATE workorders.kafka_virtual_partitions
SET finished_at = clock_timestamp(),
    created = %(created)s,
    rejected = %(rejected)s,
    existing = %(existing)s,
    filtered = %(filtered)s
WHERE batch_id = %(batch_id)s
    AND (topic, partition, start_offset) = (%(topic)s, %(partition)s, %(start_offset)s);

-- name: unfinished_ranges
SELECT DISTINCT ranges.topic, ranges.partition, ranges.start_offset
FROM workorders.kafka_unfinished_ranges AS ranges
JOIN workorders.kafka_virtual_partitions AS virtual
    ON (virtual.batch_id, virtual.topic, virtual.partition, virtual.range_start)
        = (ranges.batch_id, ranges.topic, ranges.partition, ranges.start_offset)
WHERE ranges.batch_id = %(batch_id)s
ORDER BY ranges.topic, ranges.partition;

-- name: lock_ledger
-- Not FOR UPDATE, which would wait for the other virtual partitions of the range: each has FOR KEY SHARE while it is
-- written.
SELECT ledger.epoch
FROM workorders.kafka_ledger AS ledger
JOIN workorders.kafka_ranges AS ranges USING (trigger_id, topic, partition)
WHERE ranges.batch_id = %(batch_id)s
    AND (ranges.topic, ranges.partition, ranges.start_offset) = (%(topic)s, %(partition)s, %(start_offset)s)
FOR NO KEY UPDATE OF ledger;

-- block: moved
-- The ledger moves to the end of what is finished without a gap, by compare-and-set: a writer with an older epoch, or at
-- another position, changes no row. The range is finished with it in the same statement, and so in the same snapshot.
moved AS (
    UPDATE workorders.kafka_ledger AS ledger
    SET next_offset = prefix.end_offset,
        stored_end = greatest(ledger.stored_end, prefix.end_offset),
        status = 'active',
        status_since = CASE WHEN ledger.status = 'active' THEN ledger.status_since ELSE now() END,
        attempts = 0,
        next_attempt_at = NULL,
        last_error = NULL,
        mean_message_bytes = coalesce(%(mean_message_bytes)s, ledger.mean_message_bytes),
        created = ledger.created + CASE WHEN prefix.end_offset = ranges.end_offset THEN prefix.created ELSE 0 END,
        rejected = ledger.rejected + CASE WHEN prefix.end_offset = ranges.end_offset THEN prefix.rejected ELSE 0 END,
        existing = ledger.existing + CASE WHEN prefix.end_offset = ranges.end_offset THEN prefix.existing ELSE 0 END,
        filtered = ledger.filtered + CASE WHEN prefix.end_offset = ranges.end_offset THEN prefix.filtered ELSE 0 END
    FROM prefix, workorders.kafka_ranges AS ranges
    WHERE ranges.batch_id = %(batch_id)s
        AND (ranges.topic, ranges.partition, ranges.start_offset) = (%(topic)s, %(partition)s, %(start_offset)s)
        AND ranges.finished_at IS NULL
        AND ranges.superseded_by IS NULL
        AND (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
        AND ledger.epoch = %(epoch)s
        AND ledger.next_offset >= ranges.start_offset
        AND ledger.next_offset < prefix.moves_before
    RETURNING ledger.next_offset
)
UPDATE workorders.kafka_ranges AS ranges
SET finished_at = clock_timestamp(),
    created = prefix.created,
    rejected = prefix.rejected,
    existing = prefix.existing,
    filtered = prefix.filtered,
    last_error = NULL
FROM prefix, moved
WHERE ranges.batch_id = %(batch_id)s
    AND (ranges.topic, ranges.partition, ranges.start_offset) = (%(topic)s, %(partition)s, %(start_offset)s)
    AND ranges.end_offset = moved.next_offset;

-- name: finish_range
-- A range that is written at once: the ledger is at its start.
WITH prefix AS (
    SELECT %(end_offset)s::bigint AS end_offset, %(start_offset)s::bigint + 1 AS moves_before,
        %(created)s::bigint AS created, %(rejected)s::bigint AS rejected, %(existing)s::bigint AS existing,
        %(filtered)s::bigint AS filtered
),
-- use: moved

-- name: advance
-- A separate statement under the lock, because its snapshot must have every virtual partition that was committed before
-- the lock was free.
WITH ends AS (
    SELECT coalesce(min(start_offset) FILTER (WHERE virtual.finished_at IS NULL), max(end_offset)) AS end_offset,
        sum(created) AS created, sum(rejected) AS rejected, sum(existing) AS existing, sum(filtered) AS filtered
    FROM workorders.kafka_virtual_partitions AS virtual
    WHERE batch_id = %(batch_id)s
        AND (topic, partition, range_start) = (%(topic)s, %(partition)s, %(start_offset)s)
), prefix AS (
    SELECT *, end_offset AS moves_before FROM ends
),
-- use: moved
