-- name: rejected_bytes
-- Decompresses nothing, because the length of a raw value is stored with it.
SELECT coalesce(octet_length(rejections.raw), 0) + coalesce(pg_column_size(rejections.request), 0)
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS page (id, place)
LEFT JOIN workorders.rejections ON rejections.work_order_id = page.id
ORDER BY page.place;

-- name: orphaned_jobs
-- A command that creates a job claims it at once; a suspended job reported when it began to wait.
SELECT id
FROM workorders.bulk_jobs
WHERE (state = 'waiting' AND coalesce(heartbeat_at, created_at) < now() - %(beginning)s::interval)
    OR (state = 'running' AND heartbeat_at < now() - %(silence)s::interval)
ORDER BY id;
