-- block: claimed_runs
-- What a worker needs of the runs that it claimed, apart from their inputs.
SELECT claimed.id, claimed.work_order_id, claimed.attempt, claimed.ordering_key,
    coalesce(triggers.name, ''), source_streams.name, work_orders.position
FROM claimed
JOIN workorders.work_orders ON work_orders.id = claimed.work_order_id
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id

-- block: queue
-- The work orders of the workflow `asked` that may be claimed, each in one of three lists: reruns, other runs that are due,
-- and those that wait for their first run. From each list the oldest, up to a window.
-- BETWEEN is a fence: with an equality the primary key has the order as well, and every finished work order would be read
-- on the way to the first that waits.
    SELECT due.work_order_id AS id, due.ordering_key
    FROM (VALUES (0), (1)) AS urgency (priority)
    CROSS JOIN LATERAL (
        SELECT work_order_id, ordering_key FROM workorders.runs
        WHERE runs.workflow_id = asked.id AND runs.priority = urgency.priority
            AND claimed_at IS NULL AND finished_at IS NULL AND not_before <= statement_timestamp()
        ORDER BY not_before, runs.id
        LIMIT %(window)s
    ) AS due
    UNION ALL (
        SELECT work_orders.id, work_orders.ordering_key FROM workorders.work_orders
        WHERE work_orders.workflow_id BETWEEN asked.id AND asked.id AND state = 'pending'
        ORDER BY work_orders.workflow_id, work_orders.id
        LIMIT %(window)s
    )

-- block: free_keys
-- The ordering keys of the workflow `asked` that are free: no run of them is claimed, or waits until it is due. First those
-- of the queue's head, a key as often as it is there, and then all others, one step in the index per key. A random start and
-- the lowest key take turns, so that none is always the last. A work order without a key is alone.
    WITH RECURSIVE head AS MATERIALIZED (
        -- use: queue
    ), ring AS (
        SELECT start AS ordering_key, last, true AS is_start
        FROM (VALUES (%(start)s::bigint, '9223372036854775807'), ('-9223372036854775808', %(start)s::bigint))
            AS laps (start, last)
        UNION ALL
        SELECT (
            SELECT work_orders.ordering_key FROM workorders.work_orders
            WHERE work_orders.workflow_id = asked.id AND state IN ('pending', 'requeued')
                AND work_orders.ordering_key > ring.ordering_key AND work_orders.ordering_key <= ring.last
            ORDER BY work_orders.ordering_key
            LIMIT 1
        ), ring.last, false
        FROM ring WHERE ring.ordering_key IS NOT NULL
    )
    SELECT found.ordering_key, found.alone
    FROM (
        SELECT ordering_key, CASE WHEN ordering_key IS NULL THEN id END AS alone FROM head
        UNION ALL
        SELECT ordering_key, NULL FROM ring
        WHERE NOT is_start AND ordering_key IS NOT NULL
            AND ordering_key NOT IN (SELECT ordering_key FROM head WHERE ordering_key IS NOT NULL)
    ) AS found
    WHERE found.ordering_key IS NULL OR NOT EXISTS (
        SELECT FROM workorders.runs
        WHERE runs.workflow_id = asked.id AND runs.ordering_key = found.ordering_key AND finished_at IS NULL
            AND CASE WHEN claimed_at IS NULL THEN not_before ELSE 'infinity' END > statement_timestamp()
        OFFSET 0
    )

-- block: take
-- Claims what is in `taken`: work orders that wait for their first run, which gets its row here, and others with their run.
again AS (
    UPDATE workorders.runs
    SET state = 'claimed', worker_id = %(worker_id)s, claimed_at = statement_timestamp()
    FROM taken
    WHERE runs.id = taken.run_id
    RETURNING runs.id, runs.work_order_id, runs.attempt, runs.ordering_key
), first AS (
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, ordering_key, attempt, state, worker_id, claimed_at)
    SELECT (%(ids)b::uuid[])[taken.place], taken.id, %(workflow_id)s, taken.ordering_key, 1, 'claimed', %(worker_id)s,
        statement_timestamp()
    FROM taken
    WHERE taken.run_id IS NULL
    RETURNING id, work_order_id, attempt, ordering_key
), claimed AS (
    SELECT * FROM again UNION ALL SELECT * FROM first
), running AS (
    UPDATE workorders.work_orders SET state = 'running' FROM claimed WHERE work_orders.id = claimed.work_order_id
)
-- use: claimed_runs
LEFT JOIN taken ON taken.id = claimed.work_order_id
ORDER BY taken.place;

-- name: lock_workflow
-- Not FOR UPDATE: registering a trigger, which refers to the workflow, need not wait for claims.
-- The planner expects many streams, and would compile the claim in half a second to save nothing.
SELECT concurrency, set_config('jit', 'off', true) FROM workorders.workflows WHERE id = %(workflow_id)s FOR NO KEY UPDATE;

-- name: count_at_work
SELECT count(*) FROM (
    SELECT FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL
    LIMIT %(concurrency)s
) AS at_work;

-- name: claim
-- The lists of the queue, locked.
-- The planner estimates a limit that is an expression as a tenth of all rows. So it encloses one that is a number.
-- The outer limits stop reading, so no more rows are locked than are taken.
WITH due AS MATERIALIZED (
    SELECT locked.id AS run_id, locked.work_order_id AS id, locked.ordering_key
    FROM (VALUES (0), (1)) AS urgency (priority)
    CROSS JOIN LATERAL (
        SELECT runs.id, work_order_id, ordering_key FROM workorders.runs
        WHERE runs.workflow_id = %(workflow_id)s AND runs.priority = urgency.priority
            AND claimed_at IS NULL AND finished_at IS NULL AND not_before <= statement_timestamp()
        ORDER BY not_before, runs.id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS locked
    LIMIT %(limit)s
), waiting AS MATERIALIZED (
    SELECT id, ordering_key FROM (
        SELECT id, ordering_key FROM workorders.work_orders
        WHERE workflow_id BETWEEN %(workflow_id)s AND %(workflow_id)s AND state = 'pending'
        ORDER BY workflow_id, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS locked
    LIMIT %(limit)s - (SELECT count(*) FROM due)
), taken AS MATERIALIZED (
    SELECT run_id, id, ordering_key, row_number() OVER () AS place
    FROM (SELECT run_id, id, ordering_key FROM due UNION ALL SELECT NULL, id, ordering_key FROM waiting) AS found
),
-- use: take

-- name: claim_free_keys
-- The first work orders of each free ordering key, and those that are alone.
-- Within a stream the order is the source's. Between the next ones of several streams, one with a run goes first, and then
-- the older one: `turn` is the highest such rank up to each, which is the order of a merge of the streams.
-- Those that a sequence let in in another order have a place, and come in its order behind those without.
WITH RECURSIVE asked AS (SELECT %(workflow_id)s::integer AS id), free AS MATERIALIZED (
    SELECT ordering_key, alone, least(count(*), %(per_key)s) AS share
    FROM (
        SELECT free_keys.ordering_key, free_keys.alone, row_number() OVER () AS place
        FROM asked CROSS JOIN LATERAL (
            -- use: free_keys
        ) AS free_keys
        LIMIT %(looked_at)s
    ) AS found
    GROUP BY ordering_key, alone
    ORDER BY min(place)
    LIMIT %(limit)s
), streams AS (
    SELECT ordering_key, share, -1 AS stream FROM free WHERE ordering_key IS NOT NULL
    UNION ALL
    SELECT ordering_key, share, (
        SELECT coalesce(stream_id, 0) FROM workorders.work_orders
        WHERE workflow_id = %(workflow_id)s AND state IN ('pending', 'requeued')
            AND work_orders.ordering_key = streams.ordering_key AND coalesce(stream_id, 0) > streams.stream
        ORDER BY coalesce(stream_id, 0)
        LIMIT 1
    )
    FROM streams WHERE stream IS NOT NULL
), heads AS MATERIALIZED (
    SELECT id, ordering_key, state, place
    FROM (
        SELECT id, ordering_key, state, share,
            row_number() OVER (PARTITION BY ordering_key ORDER BY sequenced NULLS FIRST, turn, position, id) AS place
        FROM (
            SELECT first.id, streams.ordering_key, first.state, streams.share, first.position, NULL::bigint AS sequenced,
                max((first.state = 'pending')::integer || first.id::text COLLATE "C")
                    OVER (PARTITION BY streams.ordering_key, streams.stream ORDER BY first.position, first.id) AS turn
            FROM streams CROSS JOIN LATERAL (
                SELECT id, position, state FROM workorders.work_orders
                WHERE workflow_id = %(workflow_id)s AND state IN ('pending', 'requeued')
                    AND ordering_key = streams.ordering_key AND coalesce(stream_id, 0) = streams.stream
                    AND NOT EXISTS (
                        SELECT FROM workorders.sequence_places
                        WHERE sequence_places.work_order_id = work_orders.id OFFSET 0
                    )
                ORDER BY position, id
                LIMIT streams.share
            ) AS first
            UNION ALL
            SELECT first.id, free.ordering_key, first.state, free.share, NULL, first.place, NULL
            FROM free CROSS JOIN LATERAL (
                SELECT work_orders.id, work_orders.state, sequence_places.place
                FROM workorders.sequence_places
                JOIN workorders.work_orders ON work_orders.id = sequence_places.work_order_id
                WHERE sequence_places.workflow_id = %(workflow_id)s
                    AND sequence_places.ordering_key = free.ordering_key
                    AND work_orders.state IN ('pending', 'requeued')
                ORDER BY sequence_places.place
                LIMIT free.share
            ) AS first
        ) AS merged
    ) AS placed
    WHERE place <= share
    UNION ALL
    SELECT work_orders.id, NULL, work_orders.state, 1
    FROM free JOIN workorders.work_orders ON work_orders.id = free.alone
), locked AS MATERIALIZED (
    SELECT work_orders.id FROM workorders.work_orders JOIN heads ON heads.id = work_orders.id
    WHERE work_orders.state = heads.state
    FOR UPDATE OF work_orders SKIP LOCKED
), taken AS MATERIALIZED (
    -- A work order that another transaction has locked, such as a cancellation, ends its ordering key for this claim.
    -- The first ones of all keys go before the second ones, so that a worker can begin as many as possible at once.
    SELECT available.id AS run_id, kept.id, kept.ordering_key, row_number() OVER (ORDER BY kept.place, kept.id) AS place
    FROM (
        SELECT heads.*, bool_and(locked.id IS NOT NULL)
            OVER (PARTITION BY heads.ordering_key, CASE WHEN heads.ordering_key IS NULL THEN heads.id END ORDER BY heads.place)
            AS is_whole
        FROM heads LEFT JOIN locked ON locked.id = heads.id
    ) AS kept
    LEFT JOIN LATERAL (
        SELECT runs.id FROM workorders.runs
        WHERE kept.state = 'requeued' AND runs.work_order_id = kept.id AND claimed_at IS NULL AND finished_at IS NULL
        OFFSET 0
    ) AS available ON true
    WHERE kept.is_whole
),
-- use: take

-- name: claimed
WITH claimed AS (
    SELECT * FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND worker_id = %(worker_id)s
        AND claimed_at IS NOT NULL AND finished_at IS NULL AND runs.id <> ALL (%(but)b::uuid[])
)
-- use: claimed_runs
ORDER BY work_orders.id;

-- name: inputs
-- In the order of the ids, up to the one that reaches the maximum of bytes, or to one that cannot be written out.
SELECT request, body, is_unreadable FROM workorders.read_inputs(%(ids)b::uuid[], %(max_bytes)s);

-- name: claimable_workflows
-- The workflows of which a claim would return a run now, or which have a worker whose heartbeat stopped. Rows that another
-- transaction has locked count as well.
WITH asked AS MATERIALIZED (
    SELECT id, name, concurrency, definition ->> 'dag_id' AS dag_id,
        definition ->> 'ordering_key' IS NOT NULL AS has_ordering_key
    FROM workorders.workflows WHERE name = ANY (%(names)s)
), found AS MATERIALIZED (
    SELECT asked.name, (
        asked.concurrency IS NULL OR asked.concurrency > (
            SELECT count(*) FROM workorders.runs
            WHERE workflow_id = asked.id AND claimed_at IS NOT NULL AND finished_at IS NULL
        )
    ) AND CASE WHEN asked.has_ordering_key THEN
        EXISTS (
            -- use: free_keys
        )
    ELSE
        EXISTS (
            -- use: queue
        )
    END AS is_claimable, EXISTS (
        SELECT FROM workorders.workers
        WHERE workers.workflow_id = asked.id AND (
            expires_at < statement_timestamp()
            -- The owner of delegated runs of a workflow that has a callable by now.
            OR expires_at IS NULL AND asked.dag_id IS NULL
        ) AND EXISTS (
            SELECT FROM workorders.runs
            WHERE runs.workflow_id = asked.id AND runs.worker_id = workers.id AND claimed_at IS NOT NULL
                AND finished_at IS NULL OFFSET 0
        )
    ) AS has_lost
    FROM asked
)
SELECT name, is_claimable, has_lost FROM found WHERE is_claimable OR has_lost;
