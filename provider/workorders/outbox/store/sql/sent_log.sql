-- name: prune_sent_log
-- The oldest rows, except those that another relay is just deleting.
DELETE FROM workorders.outbox_sent WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM workorders.outbox_sent WHERE sent_at < now() - make_interval(secs => %(seconds)s)
    ORDER BY sent_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
