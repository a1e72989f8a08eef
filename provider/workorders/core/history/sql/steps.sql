-- name: steps
-- Of a work order, or what it had finished when one of its runs ended. The fence keeps the planner from writing a large
-- result out twice.
SELECT steps.name, steps.generation, steps.run_id, runs.attempt, steps.finished_at, steps.committed_elsewhere,
    left(texts.result, %(max_characters)s) AS result, octet_length(texts.result) AS result_bytes
FROM workorders.steps
JOIN workorders.runs ON runs.id = steps.run_id
CROSS JOIN LATERAL (
    SELECT workorders.json_shown(steps.result) AS result
    OFFSET 0
) AS texts
WHERE steps.work_order_id = %(work_order_id)s
    AND (%(generation)s::integer IS NULL OR steps.generation = %(generation)s)
    AND (%(attempt)s::integer IS NULL OR runs.attempt <= %(attempt)s)
ORDER BY steps.generation, steps.finished_at, steps.name;
