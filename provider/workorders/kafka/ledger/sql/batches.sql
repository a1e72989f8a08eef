-- name: insert_batch
-- With the trigger's filter of now, so that a replay takes the same messages.
INSERT INTO workorders.kafka_batches (trigger_id, open_until, filter)
SELECT id, clock_timestamp() + %(lease_seconds)s * interval '1 second', nullif(definition -> 'filter', 'null')
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

-- name: last_plan
-- When the trigger planned last, whether a batch of it grows, which takes the free partitions, and how many batches grow.
SELECT (
    SELECT extract(epoch FROM clock_timestamp() - max(ranges.planned_at))::double precision
    FROM workorders.kafka_ranges AS ranges
    WHERE ranges.trigger_id = triggers.id
) AS seconds_ago, EXISTS (
    SELECT FROM workorders.kafka_batches AS batches
    WHERE batches.trigger_id = triggers.id AND batches.open_until > clock_timestamp()
) AS is_open, (
    SELECT count(*) FROM workorders.kafka_batches AS batches WHERE batches.open_until > clock_timestamp()
) AS growing
FROM workorders.triggers
WHERE triggers.name = %(trigger)s;

-- name: renew_lease
-- The oldest open batch grows: a younger one was planned because the older one's lease had expired. The row is locked
-- until the transaction ends, so a newer attempt begins before or after its growth.
UPDATE workorders.kafka_batches AS own
SET open_until = clock_timestamp() + %(lease_seconds)s * interval '1 second'
WHERE own.id = %(batch_id)s
    AND own.epoch = %(epoch)s
    AND own.open_until IS DISTINCT FROM '-infinity'
    AND NOT EXISTS (
        SELECT FROM workorders.kafka_batches AS older
        WHERE older.trigger_id = own.trigger_id AND older.id < own.id AND older.open_until > clock_timestamp()
    );

-- name: close_lease
UPDATE workorders.kafka_batches SET open_until = '-infinity' WHERE id = %(batch_id)s;

-- name: end_growth
UPDATE workorders.kafka_batches SET open_until = NULL WHERE id = %(batch_id)s AND epoch = %(epoch)s;

-- name: join_ranges
-- Finished ranges of a partition that follow one another, without a gap and in one log, become the first of them.
WITH ordered AS (
    SELECT *, lag(end_offset) OVER log IS DISTINCT FROM start_offset AS begins
    FROM workorders.kafka_ranges
    WHERE batch_id = %(batch_id)s AND finished_at IS NOT NULL AND last_error IS NULL
    WINDOW log AS (PARTITION BY topic, partition, topic_id, generation ORDER BY start_offset)
), numbered AS (
    SELECT *, count(*) FILTER (WHERE begins) OVER log AS number
    FROM ordered
    WINDOW log AS (PARTITION BY topic, partition, topic_id, generation ORDER BY start_offset)
), joined AS (
    SELECT topic, partition, min(start_offset) AS start_offset, max(end_offset) AS end_offset,
        max(planned_at) AS planned_at, max(finished_at) AS finished_at, sum(created) AS created,
        sum(rejected) AS rejected, sum(existing) AS existing, sum(filtered) AS filtered
    FROM numbered
    GROUP BY topic, partition, topic_id, generation, number
    HAVING count(*) > 1
), removed AS (
    DELETE FROM workorders.kafka_ranges AS ranges
    USING joined
    WHERE ranges.batch_id = %(batch_id)s
        AND (ranges.topic, ranges.partition) = (joined.topic, joined.partition)
        AND ranges.start_offset > joined.start_offset
        AND ranges.end_offset <= joined.end_offset
), uncut AS (
    DELETE FROM workorders.kafka_virtual_partitions AS virtual
    USING joined
    WHERE virtual.batch_id = %(batch_id)s
        AND (virtual.topic, virtual.partition, virtual.range_start)
            = (joined.topic, joined.partition, joined.start_offset)
)
UPDATE workorders.kafka_ranges AS ranges
SET end_offset = joined.end_offset,
    planned_at = joined.planned_at,
    finished_at = joined.finished_at,
    created = joined.created,
    rejected = joined.rejected,
    existing = joined.existing,
    filtered = joined.filtered
FROM joined
WHERE ranges.batch_id = %(batch_id)s
    AND (ranges.topic, ranges.partition, ranges.start_offset)
        = (joined.topic, joined.partition, joined.start_offset);

-- name: unfinished
-- A batch that failed is left alone until its next try is due, which the ledger knows.
SELECT batches.id
FROM workorders.triggers
JOIN workorders.kafka_unfinished_ranges AS ranges ON ranges.trigger_id = triggers.id
LEFT JOIN workorders.kafka_ledger AS ledger USING (trigger_id, topic, partition)
JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
WHERE triggers.name = %(trigger)s AND ranges.planned_at <= now() - %(seconds)s * interval '1 second'
GROUP BY batches.id
HAVING coalesce(max(ledger.next_attempt_at) <= now(), true)
ORDER BY batches.id;

-- name: owner
-- The trigger of a batch, and how many of its ranges wait.
SELECT triggers.name, count(ranges.batch_id)
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
LEFT JOIN workorders.kafka_unfinished_ranges AS ranges ON ranges.batch_id = batches.id
WHERE batches.id = %(batch_id)s
GROUP BY triggers.name;

-- block: logs
-- Which logs the offsets of a trigger belong to now.
ARRAY(
    SELECT DISTINCT concat(topic_id, '~', generation)
    FROM workorders.kafka_ledger AS ledger
    WHERE ledger.trigger_id = triggers.id
    ORDER BY 1
)

-- name: batch
SELECT batches.planned_at, triggers.name,
    triggers.definition || jsonb_build_object('filter', batches.filter),
-- use: logs
    AS logs, workflows.definition::text
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
WHERE batches.id = %(batch_id)s;

-- name: is_unchanged
SELECT (triggers.definition, workflows.definition) = (%(definition)s, %(workflow)s::jsonb) AND %(logs)s =
-- use: logs
FROM workorders.triggers
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
WHERE triggers.id = %(trigger_id)s;

-- name: ranges
-- A range that is cut has a row for each of its virtual partitions.
SELECT ranges.topic, ranges.partition, ranges.topic_id, ranges.start_offset, ranges.end_offset,
    ranges.finished_at, ranges.created, ranges.rejected, ranges.last_error, ranges.existing,
    ranges.superseded_by, ranges.generation,
    (ranges.topic_id, ranges.generation) IS DISTINCT FROM (ledger.topic_id, ledger.generation) AS of_earlier_log,
    ranges.filtered, coalesce(ledger.stored_end, 0) AS stored_end, ledger.cluster_id,
    virtual.start_offset, virtual.end_offset, virtual.finished_at, virtual.created, virtual.rejected, virtual.existing,
    virtual.filtered
FROM workorders.kafka_ranges AS ranges
LEFT JOIN workorders.kafka_ledger AS ledger USING (trigger_id, topic, partition)
LEFT JOIN workorders.kafka_virtual_partitions AS virtual
    ON (virtual.batch_id, virtual.topic, virtual.partition, virtual.range_start)
        = (ranges.batch_id, ranges.topic, ranges.partition, ranges.start_offset)
WHERE ranges.batch_id = %(batch_id)s
    AND (NOT %(unfinished)s OR ranges.finished_at IS NULL AND ranges.superseded_by IS NULL)
ORDER BY ranges.topic, ranges.partition, ranges.start_offset, virtual.start_offset;

-- name: begin_attempt
-- The lease of the plan covers the start of the first attempt. It does not begin again with a later one, which grows only
-- after it has ingested what failed.
UPDATE workorders.kafka_batches
SET epoch = greatest(epoch, %(after)s) + 1,
    open_until = CASE
        WHEN open_until = '-infinity' THEN NULL
        WHEN epoch = 0 AND open_until IS NOT NULL
            THEN clock_timestamp() + %(lease_seconds)s * interval '1 second'
        ELSE open_until
    END
WHERE id = %(batch_id)s
RETURNING epoch;

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
    AND (ranges.topic, ranges.partition, ranges.start_offset) = (%(topic)s, %(partition)s, %(start_offset)s)
    AND (ranges.finished_at IS NOT NULL) = %(is_replay)s
    AND ranges.superseded_by IS NULL;

-- name: batches
-- The index selects the page first, and only its batches are aggregated.
SELECT batches.id, triggers.name AS trigger, batches.planned_at,
    max(coalesce(ranges.finished_at, decisions.decided_at)) FILTER (WHERE NOT EXISTS (
        SELECT FROM workorders.kafka_unfinished_ranges AS unfinished WHERE unfinished.batch_id = batches.id
    )) AS finished_at,
    count(DISTINCT (ranges.topic, ranges.partition)) AS partitions,
    coalesce(sum(ranges.created), 0)::bigint AS created,
    coalesce(sum(ranges.rejected), 0)::bigint AS rejected,
    coalesce(sum(ranges.filtered), 0)::bigint AS filtered
FROM (
    SELECT id, trigger_id, planned_at
    FROM workorders.kafka_batches
    WHERE (%(trigger)s::text IS NULL OR trigger_id = (SELECT id FROM workorders.triggers WHERE name = %(trigger)s))
        AND (%(before)s::bigint IS NULL OR id < %(before)s)
    ORDER BY id DESC
    LIMIT %(limit)s
) AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
LEFT JOIN workorders.kafka_decisions AS decisions ON decisions.id = ranges.superseded_by
GROUP BY batches.id, batches.planned_at, triggers.name
ORDER BY batches.id DESC;

-- name: last_id
SELECT id
FROM workorders.work_orders
WHERE stream_id = (SELECT id FROM workorders.source_streams WHERE trigger_id = %(trigger_id)s AND name = %(stream)s)
    AND position < %(before)s
ORDER BY position DESC
LIMIT 1;

-- name: count_in_range
SELECT count(*)
FROM workorders.work_orders
JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE source_streams.trigger_id = %(trigger_id)s
    AND source_streams.name = %(stream)s
    AND work_orders.position >= %(start_offset)s
    AND work_orders.position < %(end_offset)s;

-- name: kept
-- Whether the batch is younger than anything that retention deletes, and whether its work orders are as well.
SELECT workflows.name, workflows.kept_days,
    coalesce(batches.planned_at > clock_timestamp() - workflows.kept_days * interval '1 day', true),
    workflows.kept_days IS NULL OR NOT EXISTS (
        SELECT FROM workorders.kafka_ranges AS ranges WHERE ranges.batch_id = batches.id AND ranges.existing > 0
    )
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
WHERE batches.id = %(batch_id)s;

-- name: delete_expired
-- A finished batch, before the first of its work orders may be deleted. Its Dag run may be at work for an hour after its
-- last range. Decisions keep its number.
WITH expired AS (
    SELECT batches.id
    FROM workorders.kafka_batches AS batches
    JOIN workorders.triggers ON triggers.id = batches.trigger_id
    JOIN workorders.workflows ON workflows.id = triggers.workflow_id
    WHERE batches.planned_at < %(now)s::timestamptz - workflows.kept_days * interval '1 day'
        AND NOT EXISTS (
            SELECT FROM workorders.kafka_ranges AS ranges
            WHERE ranges.batch_id = batches.id
                AND coalesce(
                    ranges.finished_at >= %(now)s::timestamptz - interval '1 hour', ranges.superseded_by IS NULL
                )
        )
    ORDER BY batches.id
    LIMIT %(limit)s
), ranges AS (
    DELETE FROM workorders.kafka_ranges USING expired WHERE kafka_ranges.batch_id = expired.id
)
DELETE FROM workorders.kafka_batches USING expired WHERE kafka_batches.id = expired.id;
