-- name: insert_workflow
-- Only when it is new: an update of the row, if to the same, would hold up the claims of its runs.
INSERT INTO workorders.workflows (name)
SELECT %(name)s WHERE NOT EXISTS (SELECT FROM workorders.workflows WHERE name = %(name)s)
ON CONFLICT (name) DO NOTHING;

-- name: upsert_trigger
INSERT INTO workorders.triggers AS stored (name, type, workflow_id, definition)
SELECT %(name)s, %(type)s, id, %(definition)s FROM workorders.workflows WHERE name = %(workflow)s
ON CONFLICT (name) DO UPDATE
SET workflow_id = EXCLUDED.workflow_id,
    definition = EXCLUDED.definition,
    updated_at = now()
WHERE (stored.workflow_id, stored.definition) IS DISTINCT FROM (EXCLUDED.workflow_id, EXCLUDED.definition);

-- block: trigger
SELECT triggers.id, triggers.name, triggers.type, triggers.workflow_id, workflows.name AS workflow,
    workflows.definition ->> 'ordering_key' AS ordering_key,
    triggers.definition, coalesce(workflows.definition, '{}') AS workflow_definition,
    triggers.created_at, triggers.updated_at
FROM workorders.triggers
JOIN workorders.workflows ON workflows.id = triggers.workflow_id

-- name: find_trigger
-- use: trigger
WHERE triggers.name = %(name)s;

-- name: find_triggers
-- use: trigger
ORDER BY triggers.name;

-- name: insert_stream
INSERT INTO workorders.source_streams (trigger_id, name)
VALUES (%(trigger_id)s, %(name)s)
ON CONFLICT (trigger_id, name) DO NOTHING;

-- name: find_stream
SELECT id
FROM workorders.source_streams
WHERE trigger_id = %(trigger_id)s AND name = %(name)s;
