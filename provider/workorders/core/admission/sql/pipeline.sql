-- name: reject
WITH given AS MATERIALIZED (
    SELECT id, code, detail, original
    FROM unnest(%(ids)s::uuid[], %(codes)s::text[], %(details)s::text[], %(originals)s::uuid[])
        AS given (id, code, detail, original)
),
changed AS (
    UPDATE workorders.work_orders SET state = 'rejected' FROM given WHERE work_orders.id = given.id
),
clips AS (
    DELETE FROM workorders.dataclips USING given WHERE dataclips.id = given.id
    RETURNING dataclips.id, dataclips.body, dataclips.request
),
texts AS MATERIALIZED (
    SELECT id, request, body IS NOT NULL AS had_body, workorders.json_text(body) AS body FROM clips
)
-- An input that Postgres cannot write out ends here: nothing can read it, and it must not stop the others.
INSERT INTO workorders.rejections (work_order_id, code, detail, request, raw, original_id)
SELECT given.id, given.code,
    given.detail || CASE WHEN texts.had_body AND texts.body IS NULL
        THEN '; its input is not kept, because Postgres cannot write it out' ELSE '' END,
    texts.request, convert_to(texts.body, 'UTF8'), given.original
FROM given JOIN texts ON texts.id = given.id;
