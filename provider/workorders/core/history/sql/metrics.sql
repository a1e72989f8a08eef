-- name: work_orders
-- labels: trigger, workflow, state
-- gauge: workorders.work_orders, {work_order}
--   Work orders by state, as they were last counted; the Dag `workorders_maintenance` counts them.
SELECT triggers.name, workflows.name, counts.state::text, counts.work_orders
FROM workorders.state_counts AS counts
JOIN workorders.triggers ON triggers.id = counts.trigger_id
JOIN workorders.workflows ON workflows.id = counts.workflow_id;

-- name: count_age
-- gauge: workorders.work_orders.count_age, s
--   Time since work orders were counted by state.
SELECT extract(epoch FROM now() - max(counted_at)) FROM workorders.state_counts;

-- name: runs
-- labels: workflow
-- gauge: workorders.runs.running, {run}
--   Runs that a worker with a heartbeat has claimed and not finished.
-- gauge: workorders.runs.waiting, {work_order}
--   Work orders that are pending or requeued; counted up to 100,000.
-- gauge: workorders.runs.oldest_wait, s
--   Time for which the first work order has waited that a worker could claim.
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
-- labels: workflow, state
-- gauge: workorders.runs.recent, {run}, absent is 0
--   Runs of the last 15 minutes by their state, among the newest 2,000 of all workflows.
-- use: recent
SELECT workflows.name, recent.state::text, count(*)
FROM recent JOIN workorders.workflows ON workflows.id = recent.workflow_id
GROUP BY workflows.name, recent.state;

-- name: recent_durations
-- labels: workflow, percentile
-- gauge: workorders.run.duration, s
--   Duration of these runs, from start to end, by percentile.
-- gauge: workorders.run.wait, s
--   Time that these runs waited for a worker, by percentile. A retry waits from when it is due.
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
-- labels: trigger
-- gauge: workorders.sequences.parked, {work_order}, absent is 0
--   Work orders that wait for a missing event of their sequence.
SELECT triggers.name, coalesce(sum(sequences.parked), 0)
FROM workorders.sequences JOIN workorders.triggers ON triggers.id = sequences.trigger_id
WHERE sequences.parked > 0
GROUP BY triggers.name;

-- name: retention
-- gauge: workorders.retention.run_age, s
--   Time since retention last ended without a failure.
-- gauge: workorders.retention.oldest_age, s
--   Age of the oldest work order that is stored.
SELECT
    (SELECT extract(epoch FROM now() - moved_at) FROM workorders.history_marks WHERE name = 'retention'),
    (SELECT extract(epoch FROM now() - created_at) FROM workorders.work_orders ORDER BY id LIMIT 1);
