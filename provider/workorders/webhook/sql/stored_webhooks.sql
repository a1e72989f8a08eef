-- name: lock
-- Two calls at the same time follow each other, and readers do not wait.
LOCK TABLE workorders.webhooks IN SHARE ROW EXCLUSIVE MODE;

-- name: delete_others
DELETE FROM workorders.webhooks WHERE name <> ALL (%(names)s) RETURNING name;

-- name: store
INSERT INTO workorders.webhooks AS stored (name, path, definition)
VALUES (%(name)s, %(path)s, %(definition)s)
ON CONFLICT (name) DO UPDATE
SET path = EXCLUDED.path, definition = EXCLUDED.definition, stored_at = clock_timestamp()
WHERE (stored.path, stored.definition) IS DISTINCT FROM (EXCLUDED.path, EXCLUDED.definition)
RETURNING name;

-- name: list
SELECT name, path, definition, stored_at FROM workorders.webhooks ORDER BY name;
