-- name: wait
-- The newest hundredth waits for its first run, that of every second workflow by an ordering key.
WITH waiting AS (
    UPDATE workorders.work_orders
    SET state = 'pending', ordering_key = CASE WHEN workflow_id %% 2 = 0 THEN position %% 500 END
    WHERE id >= pg_temp.id_of(%(rows)s * 99 / 100, %(rows)s, %(until)s) AND state = 'success' AND position IS NOT NULL
    RETURNING id
)
DELETE FROM workorders.runs USING waiting WHERE runs.work_order_id = waiting.id;

-- name: park
WITH parked AS (
    UPDATE workorders.work_orders
    SET state = 'parked', ordering_key = NULL
    WHERE id >= pg_temp.id_of(%(rows)s * 99 / 100, %(rows)s, %(until)s) AND state = 'pending' AND position %% 97 = 5
    RETURNING id, trigger_id, position, md5('sequence ' || position / 9700)::uuid AS key
), known AS (
    INSERT INTO workorders.sequences (trigger_id, key, high_water_mark, parked, parked_since, name)
    SELECT trigger_id, key, 0, count(*), now(), 'sequence ' || min(position) FROM parked GROUP BY trigger_id, key
)
INSERT INTO workorders.parked_work_orders (work_order_id, trigger_id, key, number)
SELECT id, trigger_id, key, position + 2 FROM parked;

-- name: work
-- Some run now.
WITH working AS (
    UPDATE workorders.work_orders
    SET state = 'running'
    WHERE id >= pg_temp.id_of(%(rows)s * 99 / 100, %(rows)s, %(until)s) AND state = 'pending' AND position %% 2003 = 1
    RETURNING id, workflow_id, ordering_key
), workers AS (
    INSERT INTO workorders.workers (id, workflow_id, expires_at)
    SELECT DISTINCT ON (workflow_id) id, workflow_id, now() + interval '1 min' FROM working
    RETURNING id, workflow_id
)
INSERT INTO workorders.runs
    (id, work_order_id, workflow_id, ordering_key, attempt, state, worker_id, claimed_at, started_at)
SELECT working.id, working.id, workflow_id, ordering_key, 1, 'started', workers.id, now(), now()
FROM working JOIN workers USING (workflow_id);

-- name: fail
-- All of the second trigger's work orders failed for a while before those that wait: the ward system was down.
WITH failed AS (
    UPDATE workorders.work_orders
    SET state = 'failed'
    WHERE id >= pg_temp.id_of(%(rows)s * 97 / 100, %(rows)s, %(until)s)
        AND id < pg_temp.id_of(%(rows)s * 99 / 100, %(rows)s, %(until)s)
        AND trigger_id = %(failing_id)s
        AND state = 'success'
    RETURNING id
)
UPDATE workorders.runs
SET state = 'failed', error_type = 'ConnectionError', error = 'The ward system refused the connection.'
FROM failed
WHERE runs.work_order_id = failed.id;

-- name: retry
-- The failed ones of the newest tenth were retried twice.
INSERT INTO workorders.runs
    (id, work_order_id, workflow_id, attempt, state, worker_id, created_at, claimed_at, started_at, finished_at, retry,
    error_type, error)
SELECT overlay(runs.id::text PLACING '700' || attempts.attempt FROM 15 FOR 4)::uuid, runs.work_order_id,
    runs.workflow_id, attempts.attempt, runs.state, runs.worker_id, runs.created_at, runs.claimed_at, runs.started_at,
    runs.finished_at, attempts.attempt - 1, runs.error_type, runs.error
FROM workorders.runs
JOIN workorders.work_orders ON work_orders.id = runs.work_order_id
CROSS JOIN generate_series(2, 3) AS attempts (attempt)
WHERE work_orders.state = 'failed' AND work_orders.id >= pg_temp.id_of(%(rows)s * 9 / 10, %(rows)s, %(until)s);

-- name: results
INSERT INTO workorders.run_results (run_id, output, log, log_truncated)
SELECT id, CASE WHEN state = 'success' THEN jsonb_build_object('registered', true, 'bed', right(id::text, 3)) END,
    repeat('INFO registering the patient in the ward system, which takes a moment' || E'\n', 20), false
FROM workorders.runs
WHERE id >= pg_temp.id_of(%(rows)s * 95 / 100, %(rows)s, %(until)s) AND finished_at IS NOT NULL;

-- name: enlarge
-- One input is as large as the message of a careless producer.
UPDATE workorders.dataclips
SET body = jsonb_build_object('entries', (
    SELECT jsonb_agg(jsonb_build_object('number', number, 'text', repeat(md5(number::text), 8)))
    FROM generate_series(1, %(entries)s) AS number
))
WHERE id = %(id)s;

-- name: ledger
-- The first partition of the first two topics is stalled; the others are some messages behind, or not at all.
INSERT INTO workorders.kafka_ledger
    (trigger_id, topic, partition, topic_id, stream_id, start_offset, next_offset, stored_end, status, status_since,
    attempts, next_attempt_at, last_error, created, rejected, mean_message_bytes)
SELECT trigger_id, topic, partition, topic_id, stream_id, 0, %(messages)s - partition * 2,
    %(messages)s,
    CASE WHEN is_stalled THEN 'stalled' ELSE 'active' END, now() - interval '3 hours',
    CASE WHEN is_stalled THEN 180 ELSE 0 END, CASE WHEN is_stalled THEN now() + interval '1 minute' END,
    CASE WHEN is_stalled THEN 'Postgres refused the connection: too many clients.' END, 1000000, 500, 230
FROM (
    SELECT *, partition = 0 AND topic = ANY (%(stalled_topics)s) AS is_stalled
    FROM unnest(
        %(trigger_ids)s::integer[], %(topics)s::text[], %(partitions)s::integer[], %(topic_ids)s::text[],
        %(stream_ids)s::integer[]
    ) AS given (trigger_id, topic, partition, topic_id, stream_id)
) AS places;

-- name: samples
-- The offsets that the listeners saw, one look per minute of a day.
INSERT INTO workorders.kafka_lag_samples
    (trigger_id, topic, partition, minute, observed_at, topic_id, next_offset, last_stable)
SELECT trigger_id, topic, partition, minutes.minute, minutes.minute + interval '50 seconds', topic_id,
    next_offset - CASE WHEN status = 'active' THEN minutes.ago ELSE least(greatest(minutes.ago - 180, 0), 100) END,
    next_offset - CASE WHEN status = 'active' THEN minutes.ago ELSE 0 END + minutes.ago % 7 * partition
FROM workorders.kafka_ledger
CROSS JOIN (
    SELECT ago, date_trunc('minute', now()) - ago * interval '1 minute' AS minute FROM generate_series(0, 1439) AS ago
) AS minutes;

-- name: batches
-- One per trigger every 20 seconds of the last six hours, and one per hour of the month before.
INSERT INTO workorders.kafka_batches (trigger_id, planned_at, epoch)
SELECT trigger_id, planned_at, 1
FROM (
    SELECT now() - interval '1 minute' - number * interval '20 seconds' AS planned_at
    FROM generate_series(0, %(recent_batches)s - 1) AS number
    UNION ALL
    SELECT now() - interval '6 hours 1 minute' - number * interval '1 hour'
    FROM generate_series(0, %(older_batches)s - 1) AS number
) AS times
CROSS JOIN (SELECT DISTINCT trigger_id FROM workorders.kafka_ledger) AS owners
ORDER BY planned_at, trigger_id;

-- name: ranges
-- Each batch has half of the partitions. The newest of a stalled partition is unfinished.
INSERT INTO workorders.kafka_ranges
    (batch_id, topic, partition, trigger_id, topic_id, start_offset, end_offset, planned_at, finished_at, created,
    rejected, last_error)
SELECT batch_id, topic, partition, trigger_id, topic_id, start_offset, start_offset + 50, planned_at,
    CASE WHEN NOT is_open THEN planned_at + interval '3 seconds' END, CASE WHEN NOT is_open THEN 49 END,
    CASE WHEN NOT is_open THEN 1 END, CASE WHEN is_open THEN last_error END
FROM (
    SELECT batches.id AS batch_id, batches.planned_at, ledger.topic, ledger.partition, ledger.trigger_id,
        ledger.topic_id, ledger.last_error,
        ledger.status = 'stalled' AND row_number() OVER (
            PARTITION BY ledger.trigger_id, ledger.topic, ledger.partition ORDER BY batches.id DESC
        ) = 1 AS is_open,
        50 * row_number() OVER (
            PARTITION BY ledger.trigger_id, ledger.topic, ledger.partition ORDER BY batches.id
        ) AS start_offset
    FROM workorders.kafka_batches AS batches
    JOIN workorders.kafka_ledger AS ledger
        ON ledger.trigger_id = batches.trigger_id AND (batches.id + ledger.partition) % 2 = 0
) AS numbered;

-- name: decisions
INSERT INTO workorders.kafka_decisions
    (decided_at, actor, reason, trigger_id, topic, partition, kind, from_topic_id, from_offset, to_topic_id, to_offset,
    lost_start, lost_end)
SELECT now() - number * interval '3 hours', 'ada', 'retention was too short', trigger_id, topic, partition, 'skip-lost',
    topic_id, number, topic_id, number + 10, number, number + 10
FROM workorders.kafka_ledger
CROSS JOIN generate_series(1, 5) AS number
ORDER BY number DESC;

-- name: outbox_messages
INSERT INTO workorders.outbox_messages (enqueued_at, event_id, bucket, topic, key, value)
SELECT now() - (%(messages)s - number) * interval '10 milliseconds', md5(number::text)::uuid, number %% 16,
    'published-' || number %% 10, convert_to('PAT-' || number %% 5000, 'UTF8'),
    convert_to(repeat(md5(number::text), 7), 'UTF8')
FROM generate_series(1, %(messages)s) AS number;

-- name: outbox_holds
WITH holds AS (
    INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason, next_try_at)
    SELECT 'key', 'published-' || number, number, convert_to('PAT-' || number, 'UTF8'),
        'The broker refused the message: it is larger than max.message.bytes.', now() + interval '1 minute'
    FROM generate_series(0, 4) AS number
    RETURNING id, topic, bucket, key
)
INSERT INTO workorders.outbox_messages (hold_id, event_id, bucket, topic, key, value)
SELECT holds.id, md5('held ' || number)::uuid, ~bucket, topic, key, convert_to(repeat('x', 200), 'UTF8')
FROM holds
CROSS JOIN generate_series(1, 400) AS number;

-- name: outbox_counters
INSERT INTO workorders.outbox_counters (topic, shard, sent, compacted, failed, last_sent_at)
SELECT 'published-' || topic, shard, 1000000, 500, 20, now()
FROM generate_series(0, 9) AS topic
CROSS JOIN generate_series(0, 1) AS shard;

-- name: outbox_shards
UPDATE workorders.outbox_identity SET shards = 2;

-- name: jobs
INSERT INTO workorders.bulk_jobs
    (kind, filter, options, actor, reason, state, total, done, created_at, started_at, heartbeat_at, finished_at, error)
SELECT 'rerun', jsonb_build_object('workflow', %(workflow)s::text, 'state', 'failed'), '{}', 'ada',
    'the ward system is up again', CASE WHEN is_failed THEN 'failed' ELSE 'finished' END, 1000, 900, at, at, at, at,
    CASE WHEN is_failed THEN 'OperationalError: the server closed the connection unexpectedly' END
FROM (
    SELECT now() - (500 - number) * interval '1 hour' AS at, number %% 100 = 99 AS is_failed
    FROM generate_series(1, 500) AS number
) AS times;
