-- name: add_progress
INSERT INTO workorders.history_marks (name, id)
VALUES (%(name)s, '00000000-0000-0000-0000-000000000000')
ON CONFLICT (name) DO NOTHING;

-- name: lock_progress
-- If it is locked, another process does this part of the index now.
SELECT id FROM workorders.history_marks WHERE name = %(name)s FOR UPDATE SKIP LOCKED;

-- name: move_progress
UPDATE workorders.history_marks SET id = %(id)s, moved_at = now() WHERE name = %(name)s;

-- name: progress
SELECT id FROM workorders.history_marks WHERE name = %(name)s;

-- name: settled_until
-- A transaction that began to write before this time may still commit work orders with older ids; one that takes longer
-- than the longest wait is left to the second look.
SELECT greatest(
    least(clock_timestamp(), min(xact_start)) - %(margin)s::interval, clock_timestamp() - %(max_wait)s::interval
)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL;

-- name: next_ids
SELECT id FROM workorders.work_orders WHERE id > %(after)s AND id < %(end)s ORDER BY id LIMIT %(limit)s;

-- name: without_words
SELECT page.id
FROM unnest(%(ids)s::uuid[]) AS page (id)
WHERE NOT EXISTS (SELECT FROM workorders.search_words WHERE search_words.id = page.id);

-- name: share_words
SELECT pg_advisory_xact_lock_shared(%(key)s);

-- name: lock_words
SELECT pg_advisory_xact_lock(%(key)s);

-- name: texts
-- The searched part of each; an input that cannot be written out has no words. Bytes of a rejected value that are no
-- text come as escapes, which separate words.
SELECT page.id,
    left(workorders.json_text(dataclips.body), %(max_characters)s) AS body,
    left(workorders.json_text(coalesce(dataclips.request, rejections.request)), %(max_characters)s) AS request,
    rejections.code || ' ' || rejections.detail AS reason,
    encode(substring(rejections.raw FROM 1 FOR %(max_characters)s), 'escape') AS raw
FROM unnest(%(ids)s::uuid[]) AS page (id)
LEFT JOIN workorders.dataclips ON dataclips.id = page.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = page.id;

-- name: write_words
-- One that was deleted meanwhile gets none.
INSERT INTO workorders.search_words (id, trigger_id, workflow_id, ordering_key, words)
SELECT given.id, work_orders.trigger_id, work_orders.workflow_id, work_orders.ordering_key, given.words::tsvector
FROM unnest(%(ids)s::uuid[], %(words)s::text[]) AS given (id, words)
JOIN workorders.work_orders ON work_orders.id = given.id
ON CONFLICT (id) DO UPDATE SET ordering_key = EXCLUDED.ordering_key, words = EXCLUDED.words;
