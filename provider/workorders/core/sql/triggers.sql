-- name: upsert_workflow
INSERT INTO workorders.workflows (name)
VALUES (%(name)s)
ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
RETURNING id;

-- name: upsert_trigger
INSERT INTO workorders.triggers AS stored (name, type, workflow_id, definition)
VALUES (%(name)s, %(type)s, %(workflow_id)s, %(definition)s)
ON CONFLICT (name) DO UPDATE
SET workflow_id = EXCLUDED.workflow_id,
    definition = EXCLUDED.definition,
    updated_at = now()
WHERE (stored.workflow_id, stored.definition) IS DISTINCT FROM (EXCLUDED.workflow_id, EXCLUDED.definition);

-- name: find_trigger
SELECT triggers.id, triggers.name, triggers.type, triggers.workflow_id, workflows.name AS workflow
FROM workorders.triggers
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
WHERE triggers.name = %(name)s;

-- name: insert_stream
INSERT INTO workorders.source_streams (trigger_id, name)
VALUES (%(trigger_id)s, %(name)s)
ON CONFLICT (trigger_id, name) DO NOTHING;

-- name: find_stream
SELECT id
FROM workorders.source_streams
WHERE trigger_id = %(trigger_id)s AND name = %(name)s;
