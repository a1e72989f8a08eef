-- name: insert_count
INSERT INTO workorders.workflow_counts (workflow_id, day, admitted)
VALUES (%(workflow_id)s, (now() AT TIME ZONE 'UTC')::date, 0)
ON CONFLICT (workflow_id) DO NOTHING;

-- name: lock_count
SELECT FROM workorders.workflow_counts WHERE workflow_id = %(workflow_id)s FOR UPDATE;

-- name: today
-- By the clock, not by the start of the transaction: one that waited for the lock over midnight belongs to the new day.
SELECT coalesce(max(admitted), 0),
    ceil(extract(epoch FROM date_trunc('day', clock.utc) + interval '1 day' - clock.utc))::integer
FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS utc) AS clock
LEFT JOIN workorders.workflow_counts AS counts ON counts.workflow_id = %(workflow_id)s AND counts.day = clock.utc::date
GROUP BY clock.utc;

-- name: add
UPDATE workorders.workflow_counts
SET admitted = %(admitted)s + CASE WHEN day = (clock_timestamp() AT TIME ZONE 'UTC')::date THEN admitted ELSE 0 END,
    day = (clock_timestamp() AT TIME ZONE 'UTC')::date
WHERE workflow_id = %(workflow_id)s;

-- name: waiting
-- Counts no further than the limit.
SELECT count(*)
FROM (
    SELECT FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state = 'pending'
    UNION ALL
    SELECT FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state = 'requeued'
    LIMIT %(limit)s
) AS found;

-- name: limited
SELECT id, name, definition -> 'limits'
FROM workorders.workflows
WHERE definition -> 'limits' ?| '{max_waiting,max_per_day}'
    AND (
        %(ids)s::uuid[] IS NULL
        OR id IN (SELECT workflow_id FROM workorders.work_orders WHERE work_orders.id = ANY (%(ids)s::uuid[]))
    )
    AND (
        %(trigger)s::text IS NULL OR id = (SELECT workflow_id FROM workorders.triggers WHERE triggers.name = %(trigger)s)
    )
    AND (%(workflow)s::text IS NULL OR name = %(workflow)s)
ORDER BY id;

-- name: acquire_token
-- The time is read after the row is locked, so that transactions that waited for it do not fill the bucket twice.
INSERT INTO workorders.trigger_rates AS stored (trigger_id, last_granted, tokens, filled_at)
VALUES (%(trigger_id)s, true, %(burst)s::double precision - 1, clock_timestamp())
ON CONFLICT (trigger_id) DO UPDATE
SET (last_granted, tokens, filled_at) = (
    SELECT filled.tokens >= 1, filled.tokens - (filled.tokens >= 1)::integer, filled.at
    FROM (
        SELECT now.at, least(
            %(burst)s::double precision,
            stored.tokens
                + greatest(extract(epoch FROM now.at - stored.filled_at), 0)::double precision
                * %(per_second)s::double precision
        ) AS tokens
        FROM (SELECT clock_timestamp() AS at OFFSET 0) AS now
        OFFSET 0
    ) AS filled
)
RETURNING last_granted, tokens;
