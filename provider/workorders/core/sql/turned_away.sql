-- name: reject
WITH given AS MATERIALIZED (
    SELECT id, code, detail, original
    FROM unnest(%(ids)s::uuid[], %(codes)s::text[], %(details)s::text[], %(originals)s::uuid[])
        AS given (id, code, detail, original)
),
changed AS (
    UPDATE workorders.work_orders SET state = 'rejected' FROM given WHERE work_orders.id = given.id
),
repeats AS (
    INSERT INTO workorders.duplicates (work_order_id, original_id)
    SELECT id, original FROM given WHERE original IS NOT NULL
    ON CONFLICT (work_order_id) DO UPDATE SET original_id = EXCLUDED.original_id
),
clips AS (
    DELETE FROM workorders.dataclips USING given WHERE dataclips.id = given.id
    RETURNING dataclips.id, dataclips.body, dataclips.request
)
-- An input that cannot be written out ends here: nobody can read it, and it must not keep the others from being rejected.
INSERT INTO workorders.rejections (work_order_id, code, detail, request, raw)
SELECT given.id, given.code,
    given.detail || CASE WHEN clips.body IS NOT NULL AND texts.body IS NULL
        THEN '; its input is not kept, because Postgres cannot write it out' ELSE '' END,
    clips.request, convert_to(texts.body, 'UTF8')
FROM given
JOIN clips ON clips.id = given.id
CROSS JOIN LATERAL (SELECT workorders.json_text(clips.body) AS body OFFSET 0) AS texts;

-- name: correct
UPDATE workorders.rejections SET detail = given.detail
FROM unnest(%(ids)s::uuid[], %(details)s::text[]) AS given (id, detail)
WHERE rejections.work_order_id = given.id;

-- name: original
SELECT original_id FROM workorders.duplicates WHERE work_order_id = %(id)s;
