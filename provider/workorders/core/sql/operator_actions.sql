-- name: record
INSERT INTO workorders.operator_actions (action, details, actor, account, reason)
VALUES (%(action)s, %(details)s, %(actor)s, %(account)s, %(reason)s);

-- name: actions
SELECT id, acted_at, actor, account, action, details, reason
FROM workorders.operator_actions
WHERE %(before)s::bigint IS NULL OR id < %(before)s
ORDER BY id DESC
LIMIT %(limit)s;
