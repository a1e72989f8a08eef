-- block: claimed_runs
-- What a worker needs of the runs that it claimed, apart from their inputs.
SELECT claimed.id, claimed.work_order_id, claimed.attempt, claimed.retry, claimed.ordering_key,
    coalesce(triggers.name, ''), source_streams.name, work_orders.position
FROM claimed
JOIN workorders.work_orders ON work_orders.id = claimed.work_order_id
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id

-- name: lock_workflow
-- Not FOR UPDATE: registering a trigger, which refers to the workflow, need not wait for claims.
SELECT concurrency FROM workorders.workflows WHERE id = %(workflow_id)s FOR NO KEY UPDATE;

-- name: count_at_work
SELECT count(*) FROM (
    SELECT FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL
    LIMIT %(concurrency)s
) AS at_work;

-- name: claim
-- Written so that even old statistics never make the planner read whole tables:
--   OFFSET 0 keeps the search for a run a lookup by key per row. As a join it would read all runs.
--   The planner estimates a limit that is an expression as a tenth of all rows. So it encloses one that is a number.
--   The outer limit stops reading, so no more rows are locked than it returns.
--   Two comparisons and ORDER BY workflow_id: with an equality the primary key has the order as well, and every finished
--   work order would be read on the way to the first that waits.
WITH urgent AS MATERIALIZED (
    SELECT id, row_number() OVER () AS place FROM (
        SELECT id FROM workorders.runs
        WHERE workflow_id = %(workflow_id)s AND priority = 0 AND claimed_at IS NULL AND finished_at IS NULL
            AND not_before <= statement_timestamp()
        ORDER BY not_before, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS locked
), normal AS MATERIALIZED (
    SELECT id, row_number() OVER () AS place FROM (
        SELECT id FROM (
            SELECT id FROM workorders.runs
            WHERE workflow_id = %(workflow_id)s AND priority = 1 AND claimed_at IS NULL AND finished_at IS NULL
                AND not_before <= statement_timestamp()
            ORDER BY not_before, id
            LIMIT %(limit)s
            FOR UPDATE SKIP LOCKED
        ) AS locked
        LIMIT %(limit)s - (SELECT count(*) FROM urgent)
    ) AS taken
), waiting AS MATERIALIZED (
    SELECT id, ordering_key, row_number() OVER () AS place FROM (
        SELECT id, ordering_key FROM (
            SELECT id, ordering_key FROM workorders.work_orders
            WHERE (workflow_id, id) >= (%(workflow_id)s::integer, %(from_id)s)
                AND workflow_id <= %(workflow_id)s::integer AND state = 'pending'
                AND NOT EXISTS (SELECT FROM workorders.runs WHERE runs.work_order_id = work_orders.id OFFSET 0)
            ORDER BY workflow_id, id
            LIMIT %(limit)s
            FOR UPDATE OF work_orders SKIP LOCKED
        ) AS locked
        LIMIT %(limit)s - (SELECT count(*) FROM urgent) - (SELECT count(*) FROM normal)
    ) AS taken
), again AS (
    UPDATE workorders.runs
    SET state = 'claimed', worker_id = %(worker_id)s, claimed_at = statement_timestamp()
    FROM (SELECT 0 AS rank, id, place FROM urgent UNION ALL SELECT 1, id, place FROM normal) AS due
    WHERE runs.id = due.id
    RETURNING due.rank, due.place, runs.id, runs.work_order_id, runs.attempt, runs.retry, runs.ordering_key
), first AS (
    -- A row that was claimed, finished and retried while this statement ran looks as if it had no run: it is left.
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, ordering_key, attempt, state, worker_id, claimed_at)
    SELECT given.id, waiting.id, %(workflow_id)s, waiting.ordering_key, 1, 'claimed', %(worker_id)s, statement_timestamp()
    FROM waiting JOIN unnest(%(ids)s::uuid[]) WITH ORDINALITY AS given (id, place) USING (place)
    ON CONFLICT (work_order_id, attempt) DO NOTHING
    RETURNING 2 AS rank, 0 AS place, id, work_order_id, attempt, retry, ordering_key
), claimed AS (
    SELECT * FROM again UNION ALL SELECT * FROM first
), running AS (
    UPDATE workorders.work_orders SET state = 'running' FROM claimed WHERE work_orders.id = claimed.work_order_id
)
-- use: claimed_runs
ORDER BY claimed.rank, claimed.place, claimed.work_order_id;

-- name: free_at_the_head
-- The first work orders in the queue whose ordering key is free: their number per key, and those without a key.
WITH busy AS MATERIALIZED (
    SELECT DISTINCT ordering_key FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL AND ordering_key IS NOT NULL
), head AS MATERIALIZED (
    SELECT 0 AS rank, work_orders.id, work_orders.ordering_key
    FROM (
        SELECT work_order_id FROM workorders.runs
        WHERE workflow_id = %(workflow_id)s AND priority = 0 AND claimed_at IS NULL AND finished_at IS NULL
            AND not_before <= statement_timestamp()
        ORDER BY not_before, runs.id
        LIMIT %(window)s
    ) AS urgent
    JOIN workorders.work_orders ON work_orders.id = urgent.work_order_id
    UNION ALL (
        SELECT 1, id, ordering_key FROM workorders.work_orders
        WHERE workflow_id BETWEEN %(workflow_id)s AND %(workflow_id)s AND state = 'pending'
        ORDER BY workflow_id, work_orders.id
        LIMIT %(window)s
    )
), free AS (
    SELECT min(head.rank) AS rank, head.id, head.ordering_key
    FROM head
    WHERE NOT EXISTS (SELECT FROM busy WHERE busy.ordering_key = head.ordering_key)
        AND CASE WHEN head.ordering_key IS NULL THEN NOT EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.work_order_id = head.id AND claimed_at IS NULL AND finished_at IS NULL
                AND not_before > statement_timestamp()
        ) ELSE NOT EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = %(workflow_id)s AND runs.ordering_key = head.ordering_key AND claimed_at IS NULL
                AND finished_at IS NULL AND not_before > statement_timestamp()
        ) END
    GROUP BY head.id, head.ordering_key
    ORDER BY rank, id
    LIMIT %(limit)s
)
SELECT ordering_key, count(*), NULL::uuid FROM free WHERE ordering_key IS NOT NULL GROUP BY ordering_key
UNION ALL
SELECT NULL, 1, id FROM free WHERE ordering_key IS NULL;

-- name: free_ordering_keys
-- Ordering keys with a waiting work order, from a given key on: one step in the index per key, up to a limit of steps.
WITH RECURSIVE ordering_keys AS (
    (
        SELECT ordering_key, 1 AS step FROM workorders.work_orders
        WHERE workflow_id = %(workflow_id)s AND state = 'pending' AND ordering_key IS NOT NULL AND ordering_key >= %(start)s
        ORDER BY ordering_key
        LIMIT 1
    ) UNION ALL (
        SELECT (
            SELECT work_orders.ordering_key FROM workorders.work_orders
            WHERE workflow_id = %(workflow_id)s AND state = 'pending' AND work_orders.ordering_key IS NOT NULL
                AND work_orders.ordering_key > ordering_keys.ordering_key
            ORDER BY work_orders.ordering_key
            LIMIT 1
        ), ordering_keys.step + 1
        FROM ordering_keys WHERE ordering_keys.ordering_key IS NOT NULL AND ordering_keys.step < %(steps)s
    )
)
SELECT ordering_keys.ordering_key
FROM ordering_keys
WHERE ordering_keys.ordering_key IS NOT NULL AND ordering_keys.ordering_key <> ALL (%(known)s::bigint[])
    AND ordering_keys.ordering_key NOT IN (
        SELECT ordering_key FROM workorders.runs
        WHERE workflow_id = %(workflow_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL AND ordering_key IS NOT NULL
    )
    AND NOT EXISTS (
        SELECT FROM workorders.runs
        WHERE runs.workflow_id = %(workflow_id)s AND runs.ordering_key = ordering_keys.ordering_key AND claimed_at IS NULL
            AND finished_at IS NULL AND not_before > statement_timestamp()
    )
LIMIT %(limit)s;

-- name: claim_heads
-- The first work orders of each ordering key given, as many as its share, in the order of the source; and some without
-- ordering key. Those that a sequence let in in another order have a place, and come in its order behind those without.
WITH given AS (
    SELECT ordering_key, share FROM unnest(%(ordering_keys)s::bigint[], %(shares)s::integer[]) AS given (ordering_key, share)
), heads AS MATERIALIZED (
    SELECT given.ordering_key, head.id, head.place
    FROM given CROSS JOIN LATERAL (
        SELECT id, row_number() OVER (ORDER BY sequenced NULLS FIRST, position, id) AS place FROM (
            (
                SELECT id, position, NULL::bigint AS sequenced FROM workorders.work_orders
                WHERE workflow_id = %(workflow_id)s AND state = 'pending' AND ordering_key = given.ordering_key
                    AND NOT EXISTS (
                        SELECT FROM workorders.sequence_places
                        WHERE sequence_places.work_order_id = work_orders.id OFFSET 0
                    )
                ORDER BY position, id
                LIMIT given.share
            ) UNION ALL (
                SELECT work_orders.id, work_orders.position, sequence_places.place
                FROM workorders.sequence_places
                JOIN workorders.work_orders ON work_orders.id = sequence_places.work_order_id
                WHERE sequence_places.workflow_id = %(workflow_id)s AND sequence_places.ordering_key = given.ordering_key
                    AND work_orders.state = 'pending'
                ORDER BY sequence_places.place
                LIMIT given.share
            )
            ORDER BY sequenced NULLS FIRST, position, id
            LIMIT given.share
        ) AS first
    ) AS head
    UNION ALL
    SELECT NULL, id, 1 FROM unnest(%(alone)s::uuid[]) AS alone (id)
), locked AS MATERIALIZED (
    SELECT work_orders.id FROM workorders.work_orders JOIN heads ON heads.id = work_orders.id
    WHERE work_orders.state = 'pending'
    FOR UPDATE OF work_orders SKIP LOCKED
), kept AS MATERIALIZED (
    -- A work order that another transaction has locked, such as a cancellation, ends its ordering key for this claim.
    SELECT id, ordering_key, place, row_number() OVER (ORDER BY id) AS number FROM (
        SELECT heads.id, heads.ordering_key, heads.place,
            bool_and(locked.id IS NOT NULL)
                OVER (PARTITION BY coalesce(heads.ordering_key::text, heads.id::text) ORDER BY heads.place) AS whole
        FROM heads LEFT JOIN locked ON locked.id = heads.id
    ) AS checked
    WHERE whole
), again AS (
    UPDATE workorders.runs
    SET state = 'claimed', worker_id = %(worker_id)s, ordering_key = kept.ordering_key, claimed_at = statement_timestamp()
    FROM kept
    WHERE runs.work_order_id = kept.id AND runs.claimed_at IS NULL AND runs.finished_at IS NULL
    RETURNING runs.id, runs.work_order_id, runs.attempt, runs.retry, runs.ordering_key
), first AS (
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, ordering_key, attempt, state, worker_id, claimed_at)
    SELECT new.id, kept.id, %(workflow_id)s, kept.ordering_key, 1, 'claimed', %(worker_id)s, statement_timestamp()
    FROM kept JOIN unnest(%(ids)s::uuid[]) WITH ORDINALITY AS new (id, number) USING (number)
    WHERE NOT EXISTS (SELECT FROM workorders.runs WHERE runs.work_order_id = kept.id OFFSET 0)
    ON CONFLICT (work_order_id, attempt) DO NOTHING
    RETURNING id, work_order_id, attempt, retry, ordering_key
), claimed AS (
    SELECT * FROM again UNION ALL SELECT * FROM first
), running AS (
    UPDATE workorders.work_orders SET state = 'running' FROM claimed WHERE work_orders.id = claimed.work_order_id
)
-- use: claimed_runs
LEFT JOIN workorders.sequence_places ON sequence_places.work_order_id = claimed.work_order_id
ORDER BY sequence_places.place NULLS FIRST, work_orders.position, work_orders.id;

-- name: claimed
WITH claimed AS (
    SELECT * FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND worker_id = %(worker_id)s
        AND claimed_at IS NOT NULL AND finished_at IS NULL AND runs.id <> ALL (%(but)s::uuid[])
)
-- use: claimed_runs
LEFT JOIN workorders.sequence_places ON sequence_places.work_order_id = claimed.work_order_id
ORDER BY (claimed.ordering_key IS NOT NULL), CASE WHEN claimed.ordering_key IS NULL THEN claimed.priority END,
    sequence_places.place NULLS FIRST, CASE WHEN claimed.ordering_key IS NOT NULL THEN work_orders.position END, work_orders.id;

-- name: inputs
-- In the order of the ids, up to the one that reaches the maximum of bytes, or to one that cannot be written out.
SELECT request, body, is_unreadable FROM workorders.read_inputs(%(ids)s::uuid[], %(max_bytes)s);

-- name: claimable_workflows
-- The workflows of which a claim would return a run now, or which have a worker whose heartbeat stopped. The conditions are
-- those of the claims above. Rows that another transaction has locked count as well.
WITH asked AS MATERIALIZED (
    SELECT id, name, concurrency, definition ->> 'dag_id' AS dag_id,
        definition ->> 'ordering_key' IS NOT NULL AS has_ordering_key
    FROM workorders.workflows WHERE name = ANY (%(names)s)
), at_work AS MATERIALIZED (
    SELECT asked.id AS workflow_id, running.ordering_key
    FROM asked CROSS JOIN LATERAL (
        SELECT ordering_key FROM workorders.runs
        WHERE workflow_id = asked.id AND claimed_at IS NOT NULL AND finished_at IS NULL OFFSET 0
    ) AS running
), busy AS MATERIALIZED (
    SELECT DISTINCT workflow_id, ordering_key FROM at_work WHERE ordering_key IS NOT NULL
), found AS MATERIALIZED (
    SELECT asked.name, (
        asked.concurrency IS NULL OR asked.concurrency > (SELECT count(*) FROM at_work WHERE workflow_id = asked.id)
    ) AND CASE WHEN asked.has_ordering_key THEN
        EXISTS (
            -- One step in the index per ordering key, as in free_ordering_keys.
            WITH RECURSIVE ordering_keys AS (
                (
                    SELECT ordering_key FROM workorders.work_orders
                    WHERE workflow_id = asked.id AND state = 'pending' AND ordering_key IS NOT NULL
                    ORDER BY ordering_key
                    LIMIT 1
                ) UNION ALL (
                    SELECT (
                        SELECT work_orders.ordering_key FROM workorders.work_orders
                        WHERE workflow_id = asked.id AND state = 'pending' AND work_orders.ordering_key IS NOT NULL
                            AND work_orders.ordering_key > ordering_keys.ordering_key
                        ORDER BY work_orders.ordering_key
                        LIMIT 1
                    )
                    FROM ordering_keys WHERE ordering_keys.ordering_key IS NOT NULL
                )
            )
            SELECT FROM ordering_keys
            WHERE ordering_keys.ordering_key IS NOT NULL
                AND (asked.id, ordering_keys.ordering_key) NOT IN (SELECT workflow_id, ordering_key FROM busy)
                AND NOT EXISTS (
                    SELECT FROM workorders.runs
                    WHERE runs.workflow_id = asked.id AND runs.ordering_key = ordering_keys.ordering_key
                        AND claimed_at IS NULL AND finished_at IS NULL AND not_before > statement_timestamp()
                )
        ) OR EXISTS (
            SELECT FROM (
                SELECT id, ordering_key FROM workorders.work_orders
                WHERE workflow_id BETWEEN asked.id AND asked.id AND state = 'pending'
                ORDER BY workflow_id, id
                LIMIT %(window)s
            ) AS head
            WHERE head.ordering_key IS NULL AND NOT EXISTS (
                SELECT FROM workorders.runs
                WHERE runs.work_order_id = head.id AND claimed_at IS NULL AND finished_at IS NULL
                    AND not_before > statement_timestamp() OFFSET 0
            )
        ) OR EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND priority = 0 AND claimed_at IS NULL AND finished_at IS NULL
                AND not_before <= statement_timestamp() AND ordering_key IS NULL
        )
    ELSE
        EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND claimed_at IS NULL AND finished_at IS NULL
                AND not_before <= statement_timestamp()
        ) OR EXISTS (
            -- Newest first, because older ones often wait for a retry.
            SELECT FROM (
                SELECT id FROM workorders.work_orders
                WHERE workflow_id BETWEEN asked.id AND asked.id AND state = 'pending'
                    AND NOT EXISTS (SELECT FROM workorders.runs WHERE runs.work_order_id = work_orders.id OFFSET 0)
                ORDER BY workflow_id DESC, id DESC
                LIMIT 1
            ) AS waiting
        )
    END AS is_claimable, EXISTS (
        SELECT FROM workorders.workers
        WHERE workers.workflow_id = asked.id AND (
            heartbeat_at < statement_timestamp() - make_interval(secs => %(grace_seconds)s)
            -- The owner of delegated runs of a workflow that has a callable by now.
            OR heartbeat_at IS NULL AND asked.dag_id IS NULL
        ) AND EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND runs.worker_id = workers.id AND claimed_at IS NOT NULL
                AND finished_at IS NULL OFFSET 0
        )
    ) AS has_lost
    FROM asked
)
SELECT name, is_claimable, has_lost FROM found WHERE is_claimable OR has_lost;
