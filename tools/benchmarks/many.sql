-- name: make_functions
-- Ids of version 7, four a second, that end at the time the filling began.
CREATE OR REPLACE FUNCTION pg_temp.time_of(number bigint, rows bigint, until timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT until - (rows - number) * interval '250 ms' $$;
CREATE OR REPLACE FUNCTION pg_temp.id_of(number bigint, rows bigint, until timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT (
        lpad(to_hex((extract(epoch FROM pg_temp.time_of(number, rows, until)) * 1000)::bigint), 12, '0')
        || '7000' || '8000' || lpad(to_hex(number), 12, '0')
    )::uuid
$$;

-- name: work_orders
-- One in a hundred is of a trigger that is old: all of its work orders are older than the others. One in 100,000 is of a
-- rare one without a source key. Half of the others are of the first common trigger, a quarter of the second, and so on.
-- Every thousandth failed, every two thousandth was rejected, most for one reason.
INSERT INTO workorders.work_orders (id, position, created_at, trigger_id, workflow_id, stream_id, state)
SELECT pg_temp.id_of(number, %(rows)s, %(until)s),
    CASE WHEN owner <> 2 THEN number END,
    pg_temp.time_of(number, %(rows)s, %(until)s),
    (%(trigger_ids)s::integer[])[owner],
    (%(workflow_ids)s::integer[])[owner],
    CASE owner
        WHEN 1 THEN %(old_stream_id)s
        WHEN 2 THEN NULL
        ELSE (%(stream_ids)s::integer[])[(owner - 3) * %(partitions)s + 1 + number %% %(partitions)s]
    END,
    (CASE WHEN number %% 2000 = 11 THEN 'rejected' WHEN number %% 1000 = 7 THEN 'failed' ELSE 'success' END)
        ::workorders.work_order_state
FROM (
    SELECT number, CASE
        WHEN number %% 100000 = 50005 THEN 2
        WHEN number < %(rows)s / 100 THEN 1
        ELSE 3 + least(
            cardinality(%(trigger_ids)s::integer[]) - 3,
            floor(-ln((number %% 4096 + 1)::double precision / 4096) / ln(2::double precision))::integer
        )
    END AS owner
    FROM generate_series(%(start)s::bigint, %(end)s::bigint - 1) AS number
) AS numbers;

-- name: runs
INSERT INTO workorders.runs
    (id, work_order_id, workflow_id, attempt, state, worker_id, claimed_at, started_at, finished_at,
    error_type, error)
SELECT id, id, workflow_id, 1, state::text::workorders.run_state, id, created_at, created_at, created_at,
    CASE state WHEN 'failed' THEN 'ValueError' END, CASE state WHEN 'failed' THEN 'The ward is not known.' END
FROM workorders.work_orders
WHERE id >= pg_temp.id_of(%(start)s, %(rows)s, %(until)s) AND id < pg_temp.id_of(%(end)s, %(rows)s, %(until)s)
    AND state <> 'rejected';

-- name: rejections
INSERT INTO workorders.rejections (work_order_id, code, detail, request, raw)
SELECT id, CASE WHEN position %% 400000 = 11 THEN 'not-utf8' ELSE 'not-json' END, 'The value is no object.',
    jsonb_build_object('topic', 'observations', 'offset', position), convert_to('broken ' || position, 'UTF8')
FROM workorders.work_orders
WHERE id >= pg_temp.id_of(%(start)s, %(rows)s, %(until)s) AND id < pg_temp.id_of(%(end)s, %(rows)s, %(until)s)
    AND state = 'rejected';

-- name: make_inputs
-- The inputs and their words: a test of some holds these against what the product makes of the inputs.
CREATE OR REPLACE TEMPORARY VIEW inputs AS
SELECT id, trigger_id, workflow_id, work_orders.number, filled.*
FROM (
    SELECT *, ('x' || right(id::text, 12))::bit(48)::bigint AS number FROM workorders.work_orders WHERE state <> 'rejected'
) AS work_orders
CROSS JOIN LATERAL (
    SELECT lpad(number::text, 9, '0') AS event,
        (ARRAY['admission', 'discharge', 'transfer', 'observation', 'order'])[1 + number % 5] AS kind,
        lpad((number % 200000)::text, 6, '0') AS patient,
        (ARRAY['Ada', 'Grace', 'Linus', 'Edsger', 'Barbara', 'Donald', 'Tony', 'Zoë'])[1 + number / 7 % 8] AS first,
        (ARRAY['Lovelace', 'Hopper', 'Dijkstra', 'Liskov', 'Knuth', 'Hoare'])[1 + number / 13 % 6] AS last,
        'W' || number % 97 AS ward,
        'C' || (hashint8(number) & 4095) AS code,
        hashint8(number) & 1048575 AS value,
        'N' || number % 5000 AS nurse
) AS filled;

-- name: inputs
INSERT INTO workorders.dataclips (id, body, request)
SELECT id,
    jsonb_build_object(
        'event', jsonb_build_object('id', 'EV-' || event, 'kind', kind),
        'patient', jsonb_build_object('id', 'PAT-' || patient, 'name', first || ' ' || last, 'ward', ward),
        'code', code, 'value', value, 'note', 'seen by nurse ' || nurse || ', stable'
    ),
    jsonb_build_object('topic', 'observations', 'partition', number %% 4, 'offset', number, 'key', 'PAT-' || patient,
        'headers', '[]'::jsonb)
FROM pg_temp.inputs
WHERE id >= pg_temp.id_of(%(start)s, %(rows)s, %(until)s) AND id < pg_temp.id_of(%(end)s, %(rows)s, %(until)s);

-- name: words
INSERT INTO workorders.search_words (id, trigger_id, workflow_id, words)
SELECT id, trigger_id, workflow_id, array_to_tsvector(ARRAY[
    'event', 'id', 'ev', event, 'kind', kind, 'patient', 'pat', patient, 'name', lower(first), lower(last), 'ward',
    lower(ward), 'code', lower(code), 'value', value::text, 'note', 'seen', 'by', 'nurse', lower(nurse), 'stable',
    'topic', 'observations', 'partition', (number %% 4)::text, 'offset', number::text, 'key', 'headers'
])
FROM pg_temp.inputs
WHERE id >= pg_temp.id_of(%(start)s, %(rows)s, %(until)s) AND id < pg_temp.id_of(%(end)s, %(rows)s, %(until)s);
