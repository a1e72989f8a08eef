-- name: begin
-- The ledger, decisions, and ranges must be of one moment; a transaction takes as long as the ranges of one log are read.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL statement_timeout = '60s';

-- name: ledger
WITH followed AS (
    SELECT ledger.*, triggers.name AS trigger, triggers.created_at AS trigger_created_at,
        -- A batch that grows is older than its ranges, by less than a day.
        now() - (workflows.kept_days - 1) * interval '1 day' AS deletes_before,
        workflows.updated_at AS policy_changed_at
    FROM workorders.kafka_ledger AS ledger
    JOIN workorders.triggers ON triggers.id = ledger.trigger_id
    JOIN workorders.workflows ON workflows.id = triggers.workflow_id
    WHERE triggers.name = %(trigger)s AND ledger.topic = %(topic)s AND ledger.partition = %(partition)s
), decided AS (
    SELECT decided_at, from_offset, to_offset, decisions.id = generation AS began,
        kind = 'accept-topic' AND to_topic_id = topic_id AS accepted,
        from_topic_id = topic_id AND to_topic_id = topic_id AND decisions.id > generation AS moved
    FROM followed
    JOIN workorders.kafka_decisions AS decisions USING (trigger_id, topic, partition)
)
SELECT followed.trigger_id, trigger, followed.topic, followed.partition, followed.topic_id, followed.generation,
    followed.start_offset, next_offset, stored_end, source_streams.name AS stream, (
        SELECT max(position) FROM workorders.work_orders WHERE work_orders.stream_id = followed.stream_id
    ) AS last_stored,
    ARRAY[followed.created, followed.rejected, followed.existing, followed.filtered] AS counts,
    ARRAY(SELECT ARRAY[from_offset, to_offset] FROM decided WHERE moved) AS moves,
    held.start_offset AS held_start, held.end_offset AS held_end,
    (held.topic_id, held.generation) = (followed.topic_id, followed.generation) AS held_is_same_log,
    followed.generation = 0 OR EXISTS (SELECT FROM decided WHERE began) AS is_known_log,
    followed.generation = 0 AND NOT EXISTS (SELECT FROM decided WHERE accepted) AS is_first_log,
    deletes_before,
    -- The workflow may have had another retention before.
    coalesce(
        begun.at < deletes_before
            OR begun.at < policy_changed_at AND EXISTS (SELECT FROM workorders.history_marks WHERE name = 'retention'),
        false
    ) AS may_begin_late
FROM followed
CROSS JOIN LATERAL (
    SELECT greatest(trigger_created_at, (SELECT max(decided_at) FROM decided WHERE began OR accepted)) AS at
) AS begun
JOIN workorders.source_streams ON source_streams.id = followed.stream_id
LEFT JOIN workorders.kafka_ranges AS held
    ON (held.trigger_id, held.topic, held.partition) = (followed.trigger_id, followed.topic, followed.partition)
    AND held.finished_at IS NULL
    AND held.superseded_by IS NULL;

-- name: ranges
SELECT ranges.batch_id, start_offset, end_offset, created, rejected, existing, filtered, batches.filter
FROM workorders.kafka_ranges AS ranges
JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
WHERE ranges.trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s
    AND topic_id = %(topic_id)s AND generation = %(generation)s AND finished_at IS NOT NULL
    AND batches.planned_at >= coalesce(%(deletes_before)s::timestamptz, '-infinity')
ORDER BY start_offset, ranges.batch_id;

-- name: logs
-- Those that the ledger has followed, if retention has kept their ranges.
SELECT DISTINCT topic_id, generation
FROM workorders.kafka_ranges
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s AND finished_at IS NOT NULL;

-- name: counts
-- In one statement, because retention deletes a range before the first of its work orders, and ranges that follow one
-- another become one.
SELECT page.batch_id, page.start_offset, page.end_offset, page.created, page.rejected, page.existing,
    stored.orders, stored.positions,
    page.existing > 0 OR EXISTS (
        SELECT FROM workorders.kafka_ranges AS superseded
        WHERE (superseded.trigger_id, superseded.topic, superseded.partition, superseded.topic_id, superseded.generation)
                = (page.trigger_id, page.topic, page.partition, page.topic_id, page.generation)
            AND superseded.superseded_by IS NOT NULL
            AND superseded.start_offset < page.end_offset
            AND superseded.end_offset > page.start_offset
    ) AS is_read_twice
FROM (
    SELECT ranges.*, source_streams.id AS stream_id
    FROM workorders.kafka_ranges AS ranges
    JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
    -- Nothing is stored of a log without a stream.
    LEFT JOIN workorders.source_streams
        ON source_streams.trigger_id = ranges.trigger_id AND source_streams.name = %(stream)s
    WHERE ranges.trigger_id = %(trigger_id)s AND ranges.topic = %(topic)s AND ranges.partition = %(partition)s
        AND ranges.topic_id = %(topic_id)s AND ranges.generation = %(generation)s AND ranges.finished_at IS NOT NULL
        AND batches.planned_at >= coalesce(%(deletes_before)s::timestamptz, '-infinity')
        AND (ranges.start_offset, ranges.batch_id) > (%(after_start)s, %(after_batch)s)
    ORDER BY ranges.start_offset, ranges.batch_id
    LIMIT %(limit)s
) AS page
CROSS JOIN LATERAL (
    SELECT count(*) AS orders, count(DISTINCT position) AS positions
    FROM workorders.work_orders
    WHERE work_orders.stream_id = page.stream_id
        AND position >= page.start_offset
        AND position < page.end_offset
) AS stored
ORDER BY page.start_offset, page.batch_id;
