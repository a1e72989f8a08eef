-- name: databases
SELECT DISTINCT connection FROM workorders.expired_steps WHERE expired_at < now() - %(wait)s::interval;

-- name: take
-- Those that another process has locked are left to it.
DELETE FROM workorders.expired_steps
WHERE connection = %(connection)s
    AND work_order_id IN (
        SELECT work_order_id FROM workorders.expired_steps
        WHERE connection = %(connection)s AND expired_at < now() - %(wait)s::interval
        ORDER BY work_order_id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
RETURNING work_order_id;

-- name: delete
-- In the database of the workflow.
DELETE FROM workorders_steps WHERE work_order_id = ANY (%(ids)s);
