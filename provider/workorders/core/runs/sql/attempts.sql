-- name: earlier
-- By the unique key of work order and attempt, read backwards.
SELECT id, state::text
FROM workorders.runs
WHERE work_order_id = %(work_order_id)s AND attempt < %(attempt)s
ORDER BY attempt DESC;
