-- name: claimable
-- The workflows that have a run that can be claimed now, or a worker whose heartbeat stopped. A work order may be
-- pending because of a retry that is not due yet. Of very many, the oldest and the newest ones are read, because new
-- ones are at the end, and a due one has a row of its own.
WITH asked AS MATERIALIZED (
    SELECT id, name, concurrency, definition ->> 'dag_id' AS dag_id FROM workorders.workflows WHERE name = ANY (%(names)s)
)
SELECT asked.name
FROM asked
WHERE EXISTS (
    SELECT FROM workorders.runs
    WHERE runs.workflow_id = asked.id AND claimed_at IS NOT NULL AND finished_at IS NULL
        AND (
            heartbeat_at < statement_timestamp() - make_interval(secs => %(grace_seconds)s)
            -- A delegated run of a workflow that has a callable by now.
            OR heartbeat_at IS NULL AND asked.dag_id IS NULL
        )
) OR (
    (
        asked.concurrency IS NULL OR asked.concurrency > (
            SELECT count(*) FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND claimed_at IS NOT NULL AND finished_at IS NULL
        )
    ) AND (
        EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND claimed_at IS NULL AND finished_at IS NULL
                AND not_before <= statement_timestamp()
        ) OR EXISTS (
            SELECT FROM (
                (
                    SELECT id FROM workorders.work_orders
                    WHERE workflow_id = asked.id AND state = 'pending' ORDER BY id LIMIT 100
                ) UNION ALL (
                    SELECT id FROM workorders.work_orders
                    WHERE workflow_id = asked.id AND state = 'pending' ORDER BY id DESC LIMIT 100
                )
            ) AS pending
            WHERE NOT EXISTS (
                SELECT FROM workorders.runs WHERE runs.work_order_id = pending.id AND finished_at IS NULL OFFSET 0
            )
        )
    )
);
