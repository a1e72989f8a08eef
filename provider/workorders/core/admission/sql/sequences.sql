-- name: begin
INSERT INTO workorders.sequences (trigger_id, key, name, high_water_mark)
SELECT %(trigger_id)s, given.key, given.name, %(mark)s::bigint
FROM unnest(%(keys)s::uuid[], %(names)s::text[]) WITH ORDINALITY AS given (key, name, place)
ORDER BY given.place
ON CONFLICT (trigger_id, key) DO NOTHING;

-- name: lock
SELECT key, high_water_mark, parked
FROM workorders.sequences
WHERE trigger_id = %(trigger_id)s AND key = ANY (%(keys)s::uuid[])
ORDER BY key
FOR UPDATE;

-- name: given_up
SELECT key, from_number, to_number
FROM workorders.sequence_decisions
WHERE trigger_id = %(trigger_id)s AND kind IN ('skip', 'release') AND key = ANY (%(keys)s::uuid[]);

-- name: parked
SELECT key, number, work_order_id
FROM workorders.parked_work_orders
WHERE trigger_id = %(trigger_id)s AND key = ANY (%(closing)s::uuid[])
UNION
SELECT parked.key, parked.number, parked.work_order_id
FROM unnest(%(keys)s::uuid[], %(numbers)s::bigint[]) AS given (key, number)
JOIN workorders.parked_work_orders AS parked
    ON parked.trigger_id = %(trigger_id)s AND (parked.key, parked.number) = (given.key, given.number);

-- name: park
WITH given AS MATERIALIZED (
    SELECT id, key, number FROM unnest(%(ids)s::uuid[], %(keys)s::uuid[], %(numbers)s::bigint[]) AS given (id, key, number)
),
changed AS (
    UPDATE workorders.work_orders SET state = 'parked' FROM given WHERE work_orders.id = given.id
)
INSERT INTO workorders.parked_work_orders (trigger_id, key, number, work_order_id)
SELECT %(trigger_id)s, key, number, id FROM given;

-- name: release
WITH given AS MATERIALIZED (
    SELECT id, key, number FROM unnest(%(ids)s::uuid[], %(keys)s::uuid[], %(numbers)s::bigint[]) AS given (id, key, number)
),
changed AS (
    UPDATE workorders.work_orders SET state = 'pending' FROM given
    WHERE work_orders.id = given.id AND work_orders.state = 'parked'
)
DELETE FROM workorders.parked_work_orders AS parked
USING given
WHERE parked.trigger_id = %(trigger_id)s AND (parked.key, parked.number) = (given.key, given.number);

-- name: forget_places
-- A finished work order needs no place any more. A sequence without places is in order again.
DELETE FROM workorders.sequence_places AS places
USING workorders.work_orders
WHERE places.trigger_id = %(trigger_id)s
    AND places.key = ANY (%(given_keys)s::uuid[])
    AND work_orders.id = places.work_order_id
    AND work_orders.state NOT IN ('pending', 'running');

-- name: place
-- In an ordering key, work orders with a place follow those without. So each later one of the sequence needs a place.
INSERT INTO workorders.sequence_places (work_order_id, key, ordering_key, trigger_id, workflow_id)
SELECT given.id, given.key, work_orders.ordering_key, %(trigger_id)s, %(workflow_id)s
FROM unnest(%(ids)s::uuid[], %(keys)s::uuid[], %(disordered)s::boolean[])
    WITH ORDINALITY AS given (id, key, disordered, ordinal)
JOIN workorders.work_orders ON work_orders.id = given.id
WHERE work_orders.ordering_key IS NOT NULL
    AND (
        given.disordered
        OR given.key IN (
            SELECT key
            FROM workorders.sequence_places
            WHERE trigger_id = %(trigger_id)s AND key = ANY (%(given_keys)s::uuid[])
        )
    )
ORDER BY given.ordinal;

-- name: move
-- A gap is as old as the oldest work order parked above it.
UPDATE workorders.sequences
SET high_water_mark = coalesce(given.high_water_mark, sequences.high_water_mark),
    parked = sequences.parked + given.more,
    parked_since = CASE
        WHEN sequences.parked + given.more = 0 THEN NULL
        WHEN given.moved OR sequences.parked_since IS NULL THEN (
            SELECT min(parked_at)
            FROM workorders.parked_work_orders AS parked
            WHERE parked.trigger_id = sequences.trigger_id AND parked.key = sequences.key
        )
        ELSE sequences.parked_since
    END,
    used_at = now()
FROM unnest(%(keys)s::uuid[], %(marks)s::bigint[], %(more)s::integer[], %(moved)s::boolean[])
    AS given (key, high_water_mark, more, moved)
WHERE sequences.trigger_id = %(trigger_id)s AND sequences.key = given.key;
