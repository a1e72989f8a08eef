-- name: work_orders
SELECT triggers.name, workflows.name, counts.state::text, counts.work_orders
FROM workorders.state_counts AS counts
JOIN workorders.triggers ON triggers.id = counts.trigger_id
JOIN workorders.workflows ON workflows.id = counts.workflow_id;

-- name: count_age
SELECT extract(epoch FROM now() - max(counted_at)) FROM workorders.state_counts;

-- name: runs
SELECT workflows.name,
    -- use: running
    ,
    (
        SELECT count(*)
        FROM (
            SELECT FROM workorders.work_orders
            WHERE work_orders.workflow_id = workflows.id AND state = 'pending'
            UNION ALL
            SELECT FROM workorders.work_orders
            WHERE work_orders.workflow_id = workflows.id AND state = 'requeued'
            LIMIT 100000
        ) AS counted
    ),
    coalesce(extract(epoch FROM now() - (
        -- use: oldest_waiting_at
    )), 0)
FROM workorders.workflows;

-- block: recent
-- The newest runs have the highest ids. Older ones than 15 minutes are left out afterwards, so that a quiet hour does
-- not make the query read on.
WITH recent AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM workorders.runs ORDER BY id DESC LIMIT 2000) AS newest
    WHERE created_at > now() - interval '15 minutes'
)

-- name: recent_states
-- use: recent
SELECT workflows.name, recent.state::text, count(*)
FROM recent JOIN workorders.workflows ON workflows.id = recent.workflow_id
GROUP BY workflows.name, recent.state;

-- name: recent_durations
-- use: recent
SELECT found.name, percentiles.percentile, found.durations[percentiles.place], found.waits[percentiles.place]
FROM (
    SELECT workflows.name,
        percentile_disc(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (
            ORDER BY extract(epoch FROM recent.finished_at - recent.started_at)
        ) AS durations,
        percentile_disc(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (
            ORDER BY greatest(0, extract(epoch FROM recent.claimed_at - CASE
                WHEN recent.attempt = 1 THEN work_orders.created_at ELSE recent.not_before
            END))
        ) AS waits
    FROM recent
    JOIN workorders.workflows ON workflows.id = recent.workflow_id
    JOIN workorders.work_orders ON work_orders.id = recent.work_order_id
    GROUP BY workflows.name
) AS found
CROSS JOIN unnest(ARRAY['50', '95', '100']) WITH ORDINALITY AS percentiles (percentile, place);

-- name: parked
SELECT triggers.name, coalesce(sum(sequences.parked), 0)
FROM workorders.sequences JOIN workorders.triggers ON triggers.id = sequences.trigger_id
WHERE sequences.parked > 0
GROUP BY triggers.name;

-- name: retention
SELECT
    (SELECT extract(epoch FROM now() - moved_at) FROM workorders.history_marks WHERE name = 'retention'),
    (SELECT extract(epoch FROM now() - created_at) FROM workorders.work_orders ORDER BY id LIMIT 1);
