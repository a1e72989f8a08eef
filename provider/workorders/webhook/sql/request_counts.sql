-- name: add
-- In one order, because several processes add at the same time.
INSERT INTO workorders.webhook_requests AS total (trigger, status, requests)
SELECT trigger, status, requests
FROM unnest(%(triggers)s::text[], %(statuses)s::smallint[], %(requests)s::bigint[]) AS given (trigger, status, requests)
ORDER BY trigger, status
ON CONFLICT (trigger, status) DO UPDATE SET requests = total.requests + excluded.requests;

-- name: read
SELECT trigger, status, requests FROM workorders.webhook_requests;
