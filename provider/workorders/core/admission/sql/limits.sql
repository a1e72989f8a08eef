-- name: lock_count
-- Creates the row, or locks it and changes nothing.
INSERT INTO workorders.workflow_counts (workflow_id, day, admitted)
VALUES (%(workflow_id)s, (now() AT TIME ZONE 'UTC')::date, 0)
ON CONFLICT (workflow_id) DO UPDATE SET admitted = 0 WHERE false;

-- name: used
-- By the clock, not by the start of the transaction: one that waited for the lock over midnight belongs to the new day.
-- Counts the work orders that wait no further than the limit.
SELECT
    coalesce((
        SELECT admitted
        FROM workorders.workflow_counts
        WHERE workflow_id = %(workflow_id)s AND day = (clock_timestamp() AT TIME ZONE 'UTC')::date
    ), 0),
    (
        SELECT count(*)
        FROM (
            SELECT FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state = 'pending'
            UNION ALL
            SELECT FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state = 'requeued'
            LIMIT %(max_waiting)s
        ) AS found
    );

-- name: add
UPDATE workorders.workflow_counts
SET admitted = %(admitted)s + CASE WHEN day = (clock_timestamp() AT TIME ZONE 'UTC')::date THEN admitted ELSE 0 END,
    day = (clock_timestamp() AT TIME ZONE 'UTC')::date
WHERE workflow_id = %(workflow_id)s;

-- name: limited
SELECT id
FROM workorders.workflows
WHERE coalesce(definition #>> '{limits,max_waiting}', definition #>> '{limits,max_per_day}') IS NOT NULL
    AND id IN (SELECT workflow_id FROM workorders.work_orders WHERE work_orders.id = ANY (%(ids)s::uuid[]))
ORDER BY id;
