-- name: begin
-- The ledger, decisions, and ranges must be of one moment; a transaction takes as long as the ranges of one log are read.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL statement_timeout = '60s';

-- name: ledger
WITH followed AS (
    SELECT ledger.*, triggers.name AS trigger, triggers.created_at AS trigger_created_at,
        -- A batch is older than its work orders, and an audit takes less than an hour.
        now() - workflows.kept_days * interval '1 day' + interval '1 hour' AS deletes_before,
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
    followed.start_offset, next_offset, stored_end, followed.stream_id, source_streams.name AS stream, (
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
LEFT JOIN workorders.kafka_unfinished_ranges AS held
    ON (held.trigger_id, held.topic, held.partition) = (followed.trigger_id, followed.topic, followed.partition);

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
SELECT page.batch_id, page.start_offset, page.end_offset, page.created, page.rejected, page.existing, page.filtered,
    page.filter, stored.orders, stored.positions,
    page.existing > 0 OR EXISTS (
        SELECT FROM workorders.kafka_ranges AS superseded
        WHERE (superseded.trigger_id, superseded.topic, superseded.partition, superseded.topic_id, superseded.generation)
                = (page.trigger_id, page.topic, page.partition, page.topic_id, page.generation)
            AND superseded.superseded_by IS NOT NULL
            AND superseded.start_offset < page.end_offset
            AND superseded.end_offset > page.start_offset
    ) AS is_read_twice
FROM (
    SELECT ranges.*, batches.filter, source_streams.id AS stream_id
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

-- name: trigger
-- What decodes a trigger's messages, and when it was last changed; null if it never was.
SELECT definition, CASE WHEN updated_at > created_at THEN updated_at END
FROM workorders.triggers
WHERE name = %(trigger)s;

-- name: positions
SELECT position
FROM workorders.work_orders
WHERE stream_id = %(stream_id)s AND position >= %(start)s AND position < %(end)s;

-- name: compare
-- As text too, because jsonb takes 1.0 for 1. Postgres writes the input of a message that a rule rejected as its raw value.
SELECT work_orders.id, work_orders.created_at, work_orders.state = 'rejected' AS is_rejected,
    dataclips.id IS NOT NULL AS has_input, rejections.code,
    coalesce(
        dataclips.body IS NULL AND dataclips.request = '{}', rejections.raw IS NULL AND rejections.request = '{}', false
    ) AS is_wiped,
    CASE WHEN dataclips.id IS NOT NULL
        THEN dataclips.body = given.body
            AND workorders.json_text(dataclips.body) IS NOT DISTINCT FROM workorders.json_text(given.body)
        -- An input that Postgres cannot write out is not kept if a rule rejects it.
        WHEN rejections.raw IS NULL
        THEN %(is_null)s OR given.body IS NOT NULL AND workorders.json_text(given.body) IS NULL
        ELSE rejections.raw = ANY (%(raws)s::bytea[])
            OR rejections.raw = convert_to(workorders.json_text(given.body), 'UTF8')
    END AS same_content,
    coalesce(dataclips.request, rejections.request) = given.request
        AND workorders.json_text(coalesce(dataclips.request, rejections.request))
            IS NOT DISTINCT FROM workorders.json_text(given.request) AS same_request
FROM (VALUES (%(body)s::text::jsonb, %(request)s::text::jsonb)) AS given (body, request)
JOIN workorders.work_orders ON (work_orders.stream_id, work_orders.position) = (%(stream_id)s, %(position)s)
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
ORDER BY work_orders.id
LIMIT 1;

-- name: unfinished_runs
-- Unfinished runs that their work order, their own times, or the workers contradict, and work orders without such a run.
-- No recovery finds a run whose worker has no row.
SELECT workflows.name, CASE
    WHEN runs.id IS NULL THEN concat('Work order ', orders.id, ' is ', orders.state, ', and has no unfinished run.')
    ELSE concat(
        'Run ', runs.id, ' is ', runs.state, CASE WHEN claimed_at IS NOT NULL THEN ' and claimed' END,
        ', its work order is ', coalesce(orders.state::text, ended.state::text, 'missing'),
        CASE WHEN claimed_at IS NOT NULL AND workers.id IS NULL THEN ', and its worker has no row in the table workers' END,
        '.'
    )
END
FROM (SELECT * FROM workorders.runs WHERE finished_at IS NULL) AS runs
FULL JOIN (SELECT * FROM workorders.work_orders WHERE state IN ('requeued', 'running')) AS orders
    ON orders.id = runs.work_order_id
JOIN workorders.workflows ON workflows.id = coalesce(runs.workflow_id, orders.workflow_id)
LEFT JOIN workorders.work_orders AS ended ON ended.id = runs.work_order_id AND orders.id IS NULL
LEFT JOIN workorders.workers ON workers.id = runs.worker_id
WHERE runs.id IS NULL
    OR runs.state NOT IN ('available', 'claimed', 'started')
    OR (runs.state = 'available') <> (claimed_at IS NULL)
    OR claimed_at IS NOT NULL AND workers.id IS NULL
    OR orders.state IS DISTINCT FROM (
        CASE WHEN claimed_at IS NULL THEN 'requeued' ELSE 'running' END
    )::workorders.work_order_state
ORDER BY runs.id, orders.id
LIMIT %(limit)s;

-- name: sequences
-- The number of parked work orders of a sequence, and what it counts.
SELECT workflows.name, concat(
    'Sequence ', sequences.key, ' of trigger ', triggers.name, ' counts ', sequences.parked, ' parked work orders of ',
    count(parked.work_order_id), '.'
)
FROM workorders.sequences
JOIN workorders.triggers ON triggers.id = sequences.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
LEFT JOIN workorders.parked_work_orders AS parked
    ON (parked.trigger_id, parked.key) = (sequences.trigger_id, sequences.key)
WHERE sequences.parked > 0 OR sequences.alerted_since IS NOT NULL
GROUP BY sequences.trigger_id, sequences.key, triggers.name, workflows.name, sequences.parked
HAVING sequences.parked <> count(parked.work_order_id)
ORDER BY sequences.key
LIMIT %(limit)s;

-- name: parts
-- From one id on: work orders whose input or rejection is missing, or whose last run ended in another state; and inputs and
-- rejections without a work order.
WITH orders AS MATERIALIZED (
    SELECT id, state, workflow_id FROM workorders.work_orders WHERE id >= %(from)s ORDER BY id LIMIT %(window)s
), inputs AS MATERIALIZED (
    SELECT id FROM workorders.dataclips WHERE id >= %(from)s ORDER BY id LIMIT %(window)s
), refused AS MATERIALIZED (
    SELECT work_order_id AS id FROM workorders.rejections WHERE work_order_id >= %(from)s ORDER BY 1 LIMIT %(window)s
)
SELECT workflows.name, concat('Work order ', orders.id, ' is ', orders.state, ', and its input or rejection does not match.')
FROM orders
JOIN workorders.workflows ON workflows.id = orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = orders.id
WHERE (orders.state = 'rejected', orders.state <> 'rejected')
    <> (rejections.work_order_id IS NOT NULL, dataclips.id IS NOT NULL)
UNION ALL
SELECT workflows.name, concat(
    'Work order ', orders.id, ' is ', orders.state, ', and its last run is ', coalesce(last.state::text, 'missing'), '.'
)
FROM orders
JOIN workorders.workflows ON workflows.id = orders.workflow_id
LEFT JOIN LATERAL (
    SELECT runs.state FROM workorders.runs WHERE runs.work_order_id = orders.id ORDER BY attempt DESC LIMIT 1
) AS last ON true
WHERE orders.state IN ('success', 'failed', 'crashed', 'killed', 'lost', 'exception')
    AND last.state::text IS DISTINCT FROM orders.state::text
UNION ALL
SELECT NULL, concat('Input ', id, ' belongs to no work order.')
FROM inputs WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = inputs.id)
UNION ALL
SELECT NULL, concat('Rejection ', id, ' belongs to no work order.')
FROM refused WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = refused.id)
LIMIT %(limit)s;

-- name: ends
-- The first and the last id; they grow with time.
SELECT (SELECT id FROM workorders.work_orders ORDER BY id LIMIT 1),
    (SELECT id FROM workorders.work_orders ORDER BY id DESC LIMIT 1);

-- name: write_report
INSERT INTO workorders.last_audit (report) VALUES (%(report)s::text::jsonb)
ON CONFLICT (id) DO UPDATE SET report = EXCLUDED.report;

-- name: read_report
SELECT report::text FROM workorders.last_audit;
