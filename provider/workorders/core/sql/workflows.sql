-- name: upsert_workflow
-- An unchanged definition writes and locks nothing, so that no claim waits for it. ON CONFLICT alone would lock the row.
INSERT INTO workorders.workflows AS stored (name, definition, concurrency)
SELECT %(name)s, %(definition)s, %(concurrency)s
WHERE NOT EXISTS (
    SELECT FROM workorders.workflows
    WHERE name = %(name)s
        AND (definition, concurrency) IS NOT DISTINCT FROM (%(definition)s::jsonb, %(concurrency)s::integer)
)
ON CONFLICT (name) DO UPDATE
SET definition = EXCLUDED.definition,
    concurrency = EXCLUDED.concurrency,
    updated_at = now()
WHERE (stored.definition, stored.concurrency) IS DISTINCT FROM (EXCLUDED.definition, EXCLUDED.concurrency);

-- name: find_workflow
SELECT id, name, definition FROM workorders.workflows WHERE name = %(name)s;

-- name: find_workflows
SELECT id, name, definition FROM workorders.workflows ORDER BY name;
