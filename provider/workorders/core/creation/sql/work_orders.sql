-- name: insert_missing
-- Inserts the rows whose source key has no work order, in the given order; a key that is given twice gets one.
INSERT INTO workorders.work_orders (id, position, trigger_id, workflow_id, stream_id, state, ordering_key)
SELECT given.id, given.position, %(trigger_id)s, %(workflow_id)s, given.stream_id, given.state,
    given.ordering_key
FROM unnest(
    %(ids)s::uuid[], %(positions)s::bigint[], %(stream_ids)s::integer[], %(states)s::workorders.work_order_state[],
    %(ordering_keys)s::bigint[]
) WITH ORDINALITY AS given (id, position, stream_id, state, ordering_key, place)
ORDER BY given.place
ON CONFLICT (stream_id, position) DO NOTHING
RETURNING id;
