-- block: is_held
-- Whether a lock is held, whose key Postgres shows in two halves. To request it instead would make its next holder wait.
EXISTS (
    SELECT FROM pg_locks AS locks
    WHERE locks.locktype = 'advisory'
        AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND locks.objsubid = 1
        AND locks.classid::bigint << 32 | locks.objid::bigint =

-- block: taker_runs
-- Whether the task that took the batch still runs: it holds the lock of attempts at its own batch.
-- use: is_held
    hashtextextended('workorders attempt', batches.taken_by)
)

-- name: insert_batch
-- With the trigger's filter of now, so that a replay takes the same messages.
INSERT INTO workorders.kafka_batches (trigger_id, taken_by, filter)
SELECT id, %(taken_by)s, nullif(definition -> 'filter', 'null')
FROM workorders.triggers
WHERE id = %(trigger_id)s
RETURNING id;

-- name: insert_range
-- The generation is the ledger's current one: the log of the topic that these offsets belong to.
INSERT INTO workorders.kafka_ranges
    (batch_id, trigger_id, topic, partition, topic_id, start_offset, end_offset, generation)
SELECT %(batch_id)s, %(trigger_id)s, %(topic)s, %(partition)s, %(topic_id)s, %(start_offset)s, %(end_offset)s,
    coalesce(max(generation), 0)
FROM workorders.kafka_ledger
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s;

-- name: newest_batch
SELECT extract(epoch FROM clock_timestamp() - batches.planned_at)::double precision AS seconds_ago,
-- use: is_held
    hashtextextended('workorders taking', triggers.id)
) AS is_taken
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
WHERE triggers.name = %(trigger)s
ORDER BY batches.id DESC
LIMIT 1;

-- name: unfinished
-- A batch that failed is left alone until its next try is due, which the ledger knows. A batch without an ingest run is
-- left to the task that took it.
SELECT batches.id, batches.handed_over_at IS NOT NULL AS handed_over
FROM workorders.triggers
JOIN workorders.kafka_ranges AS ranges
    ON ranges.trigger_id = triggers.id AND ranges.finished_at IS NULL AND ranges.superseded_by IS NULL
JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
LEFT JOIN workorders.kafka_ledger AS ledger
    ON (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
WHERE triggers.name = %(trigger)s
    AND batches.planned_at <= now() - %(seconds)s * interval '1 second'
    AND (batches.handed_over_at IS NOT NULL OR NOT
-- use: taker_runs
    )
GROUP BY batches.id
HAVING coalesce(max(ledger.next_attempt_at) <= now(), true)
ORDER BY batches.id;

-- name: finished_without_run
-- Batches that a task took and whose ingest run it could not start before it ended.
SELECT batches.id
FROM workorders.triggers
JOIN workorders.kafka_batches AS batches ON batches.trigger_id = triggers.id
WHERE triggers.name = %(trigger)s
    AND batches.handed_over_at IS NULL
    AND batches.taken_by IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM workorders.kafka_ranges AS ranges
        WHERE ranges.batch_id = batches.id AND ranges.finished_at IS NULL AND ranges.superseded_by IS NULL
    )
    AND NOT
-- use: taker_runs
ORDER BY batches.id;

-- name: taken_without_run
SELECT id FROM workorders.kafka_batches WHERE taken_by = %(taker)s AND handed_over_at IS NULL ORDER BY id;

-- name: mark_handed_over
UPDATE workorders.kafka_batches
SET handed_over_at = now()
WHERE id = ANY (%(batch_ids)s) AND handed_over_at IS NULL;

-- name: batch
SELECT batches.id, batches.planned_at, batches.handed_over_at, batches.taken_by, batches.first_id, triggers.name,
    triggers.definition || jsonb_build_object('filter', batches.filter),
    ARRAY(
        SELECT DISTINCT concat(topic_id, '~', generation)
        FROM workorders.kafka_ledger AS ledger
        WHERE ledger.trigger_id = batches.trigger_id
        ORDER BY 1
    ) AS logs
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
WHERE batches.id = %(batch_id)s;

-- name: state
-- What changes when something of a batch is finished or superseded, or when the definition of its trigger changes.
SELECT triggers.definition::text,
    ARRAY(
        SELECT (ranges.topic, ranges.partition)::text
        FROM workorders.kafka_ranges AS ranges
        WHERE ranges.batch_id = batches.id AND ranges.finished_at IS NULL AND ranges.superseded_by IS NULL
        ORDER BY 1
    ) AS unfinished
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
WHERE batches.id = %(batch_id)s;

-- name: merged_into
-- The numbers of several triggers alternate, so merged batches of several may have the number among theirs.
SELECT batches.id, triggers.name
FROM workorders.triggers
CROSS JOIN LATERAL (
    SELECT id, first_id
    FROM workorders.kafka_batches
    WHERE trigger_id = triggers.id AND id > %(batch_id)s
    ORDER BY id
    LIMIT 1
) AS batches
WHERE batches.first_id <= %(batch_id)s
ORDER BY batches.id;

-- name: ranges
SELECT ranges.topic, ranges.partition, ranges.topic_id, ranges.start_offset, ranges.end_offset,
    ranges.finished_at, ranges.created, ranges.rejected, ranges.last_error, ranges.existing,
    ranges.superseded_by, ranges.generation,
    ranges.topic_id = ledger.topic_id AND ranges.generation <> ledger.generation AS cut_since, ranges.filtered
FROM workorders.kafka_ranges AS ranges
LEFT JOIN workorders.kafka_ledger AS ledger
    ON (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
WHERE ranges.batch_id = %(batch_id)s
ORDER BY ranges.topic, ranges.partition;

-- name: finish_range
WITH counted AS (
    UPDATE workorders.kafka_ledger AS ledger
    SET created = ledger.created + %(created)s,
        rejected = ledger.rejected + %(rejected)s,
        existing = ledger.existing + %(existing)s,
        filtered = ledger.filtered + %(filtered)s
    FROM workorders.kafka_ranges AS ranges
    WHERE ranges.batch_id = %(batch_id)s
        AND ranges.topic = %(topic)s
        AND ranges.partition = %(partition)s
        AND (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
)
UPDATE workorders.kafka_ranges
SET finished_at = clock_timestamp(),
    created = %(created)s,
    rejected = %(rejected)s,
    existing = %(existing)s,
    filtered = %(filtered)s,
    last_error = NULL
WHERE batch_id = %(batch_id)s
    AND topic = %(topic)s
    AND partition = %(partition)s
    AND finished_at IS NULL
    AND superseded_by IS NULL;

-- block: of_task
-- Batches that a task took may have become one with its own, under the number of the last one.
FROM workorders.triggers
JOIN workorders.kafka_batches AS batches ON batches.trigger_id = triggers.id
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
WHERE triggers.name = %(trigger)s
    AND batches.id >= %(batch_id)s
    AND (batches.id = %(batch_id)s OR batches.taken_by = %(batch_id)s OR batches.first_id <= %(batch_id)s)

-- name: created_by_task
SELECT coalesce(sum(ranges.created), 0), coalesce(sum(ranges.rejected), 0)
-- use: of_task
;

-- name: first_messages_of_attempt
-- The caller's transaction began with the attempt. The senders of these messages began a trace.
SELECT created.id, created.topic, created.partition, created.position, dataclips.request
FROM (
    SELECT work_orders.id, ranges.topic, ranges.partition, work_orders.position
    FROM (
        SELECT ranges.*
        -- use: of_task
            AND ranges.finished_at >= now()
    ) AS ranges
    JOIN workorders.kafka_ledger AS ledger
        ON (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
    CROSS JOIN LATERAL (
        SELECT id, position FROM workorders.work_orders
        WHERE work_orders.stream_id = ledger.stream_id
            AND work_orders.position >= ranges.start_offset
            AND work_orders.position < ranges.end_offset
        ORDER BY work_orders.position
        LIMIT %(limit)s
    ) AS work_orders
    LIMIT %(limit)s
) AS created
JOIN workorders.dataclips ON dataclips.id = created.id
WHERE jsonb_path_exists(dataclips.request, '$.headers[*] ? (@[0] like_regex "^traceparent$" flag "i")')
ORDER BY created.topic, created.partition, created.position;

-- name: begin_attempt
UPDATE workorders.kafka_batches SET epoch = greatest(epoch, %(after)s) + 1 WHERE id = %(batch_id)s RETURNING epoch;

-- name: clear_errors
UPDATE workorders.kafka_ranges SET last_error = NULL WHERE batch_id = %(batch_id)s AND last_error IS NOT NULL;

-- name: write_error
-- The batch's epoch and not the ledger's: a replay does not change the ledger, and an older attempt must not write errors
-- there either.
UPDATE workorders.kafka_ranges AS ranges
SET last_error = %(error)s
FROM workorders.kafka_batches AS batches
WHERE batches.id = ranges.batch_id
    AND batches.epoch = %(epoch)s
    AND ranges.batch_id = %(batch_id)s
    AND ranges.topic = %(topic)s
    AND ranges.partition = %(partition)s
    AND ranges.superseded_by IS NULL;

-- name: batches
-- The index selects the page first, and only its batches are aggregated.
SELECT batches.id, batches.first_id, triggers.name AS trigger, batches.planned_at, batches.handed_over_at,
    max(coalesce(ranges.finished_at, decisions.decided_at)) FILTER (WHERE NOT EXISTS (
        SELECT FROM workorders.kafka_ranges AS unfinished
        WHERE unfinished.batch_id = batches.id
            AND unfinished.finished_at IS NULL
            AND unfinished.superseded_by IS NULL
    )) AS finished_at,
    count(*) AS partitions,
    coalesce(sum(ranges.created), 0)::bigint AS created,
    coalesce(sum(ranges.rejected), 0)::bigint AS rejected,
    coalesce(sum(ranges.filtered), 0)::bigint AS filtered
FROM (
    SELECT id, first_id, trigger_id, planned_at, handed_over_at
    FROM workorders.kafka_batches
    WHERE (%(trigger)s::text IS NULL OR trigger_id = (SELECT id FROM workorders.triggers WHERE name = %(trigger)s))
        AND (%(before)s::bigint IS NULL OR id < %(before)s)
    ORDER BY id DESC
    LIMIT %(limit)s
) AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
LEFT JOIN workorders.kafka_decisions AS decisions ON decisions.id = ranges.superseded_by
GROUP BY batches.id, batches.first_id, batches.planned_at, batches.handed_over_at, triggers.name
ORDER BY batches.id DESC;

-- name: last_planned
-- One look per trigger, by the index.
SELECT triggers.name, newest.planned_at
FROM workorders.triggers
CROSS JOIN LATERAL (
    SELECT batches.planned_at
    FROM workorders.kafka_batches AS batches
    WHERE batches.trigger_id = triggers.id
    ORDER BY batches.id DESC
    LIMIT 1
) AS newest;

-- name: count_in_range
-- Work orders that retention deleted count as existing: a replay must not create them again. A deleted range with gaps is
-- that of one batch, so it is inside this range or outside it. If an operator has set the ledger back to an offset inside
-- it, it counts as many as this part of it can contain.
SELECT (
    SELECT count(*)
    FROM workorders.work_orders
    JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
    WHERE source_streams.trigger_id = %(trigger_id)s
        AND source_streams.name = %(stream)s
        AND work_orders.position >= %(start_offset)s
        AND work_orders.position < %(end_offset)s
) + (
    SELECT coalesce(
        sum(
            least(
                deleted_positions.work_orders,
                least(deleted_positions.to_position, %(end_offset)s)
                - greatest(deleted_positions.from_position, %(start_offset)s)
            )
        ),
        0
    )
    FROM workorders.deleted_positions
    JOIN workorders.source_streams ON source_streams.id = deleted_positions.stream_id
    WHERE source_streams.trigger_id = %(trigger_id)s
        AND source_streams.name = %(stream)s
        AND deleted_positions.to_position > %(start_offset)s
        AND deleted_positions.from_position < %(end_offset)s
);
