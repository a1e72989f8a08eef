-- name: ask
-- Turns that ended lately for a request that was never answered count for the next one as well: a task that starts and
-- finds nothing it may claim, such as in lanes that wait for a retry, would have the others end theirs again and again.
INSERT INTO workorders.turns AS stored (workflow_id, asked_at)
SELECT id, statement_timestamp() FROM workorders.workflows WHERE name = %(name)s
ON CONFLICT (workflow_id) DO UPDATE
SET asked_at = EXCLUDED.asked_at,
    given = CASE WHEN stored.given_at > statement_timestamp() - make_interval(secs => %(remembered)s) THEN stored.given
        ELSE 0 END,
    given_at = CASE WHEN stored.given_at > statement_timestamp() - make_interval(secs => %(remembered)s)
        THEN stored.given_at END
RETURNING workflow_id;

-- name: was_given_up
SELECT given_up = %(turn)s FROM workorders.turns WHERE workflow_id = %(workflow_id)s;

-- name: requests
-- Of the other workflows, those that ask and at which nobody works. Of two turns that could end for one of them, one
-- sees it, and the other goes on.
SELECT workflows.id, workflows.name,
    extract(epoch FROM statement_timestamp() - turns.asked_at)::double precision,
    turns.given,
    extract(epoch FROM statement_timestamp() - turns.given_at)::double precision
FROM workorders.turns
JOIN workorders.workflows ON workflows.id = turns.workflow_id
WHERE turns.workflow_id <> %(workflow_id)s AND turns.asked_at IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM workorders.runs
        WHERE runs.workflow_id = turns.workflow_id AND claimed_at IS NOT NULL AND finished_at IS NULL
            AND heartbeat_at >= statement_timestamp() - make_interval(secs => %(grace_seconds)s)
    )
ORDER BY turns.asked_at
FOR UPDATE OF turns SKIP LOCKED;

-- name: give
UPDATE workorders.turns SET given = given + 1, given_at = statement_timestamp() WHERE workflow_id = %(to)s;

-- name: give_up
INSERT INTO workorders.turns (workflow_id, given_up) VALUES (%(workflow_id)s, %(turn)s)
ON CONFLICT (workflow_id) DO UPDATE SET given_up = EXCLUDED.given_up;

-- name: had
UPDATE workorders.turns SET asked_at = NULL, given = 0, given_at = NULL
WHERE workflow_id = %(workflow_id)s AND asked_at IS NOT NULL;
