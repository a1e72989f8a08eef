-- name: old
-- In the database of the transactions: the next work orders with a row that is old.
SELECT work_order_id
FROM workorders_steps
WHERE work_order_id > %(after)s AND finished_at < now() - %(age)s::interval
GROUP BY work_order_id
ORDER BY work_order_id
LIMIT %(limit)s;

-- name: runnable
-- In the database of the work orders: those of them that can run again, because they exist and have their input.
SELECT id FROM workorders.dataclips WHERE id = ANY (%(ids)s) AND body IS NOT NULL;

-- name: delete
DELETE FROM workorders_steps WHERE work_order_id = ANY (%(ids)s) AND finished_at < now() - %(age)s::interval;
