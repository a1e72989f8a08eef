-- name: databases
SELECT DISTINCT connection FROM workorders.expired_steps WHERE expired_at < now() - %(wait)s::interval;

-- name: due
SELECT work_order_id
FROM workorders.expired_steps
WHERE connection = %(connection)s AND expired_at < now() - %(wait)s::interval
ORDER BY expired_at
LIMIT %(limit)s;

-- name: delete
-- In the database of the workflow.
DELETE FROM workorders_steps WHERE work_order_id = ANY (%(ids)s);

-- name: forget
DELETE FROM workorders.expired_steps WHERE connection = %(connection)s AND work_order_id = ANY (%(ids)s);
