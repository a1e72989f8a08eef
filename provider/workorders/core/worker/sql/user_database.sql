-- name: create_table
-- The steps of `context.transaction`: each is inserted by the transaction whose writes it stands for.
CREATE TABLE IF NOT EXISTS workorders_steps (
    work_order_id uuid NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now(),
    run_id uuid NOT NULL,
    generation integer NOT NULL,
    name text NOT NULL,
    result jsonb,
    PRIMARY KEY (work_order_id, generation, name)
);

-- block: insertion
-- The limits begin behind the insertion, which waits for another transaction with the same key.
INSERT INTO workorders_steps (work_order_id, run_id, generation, name)
SELECT %(work_order_id)s, %(run_id)s, %(generation)s, %(name)s FROM pg_advisory_unlock_all() ON CONFLICT DO NOTHING
RETURNING set_config('statement_timeout', %(statement_timeout)s, true),
    set_config('lock_timeout', %(lock_timeout)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, true);

-- block: result
-- Only in the transaction that inserted it. Without a row, the error of the cast keeps what follows from being executed.
WITH stored AS (
    UPDATE workorders_steps SET result = %(result)s::jsonb, finished_at = clock_timestamp()
    WHERE work_order_id = %(work_order_id)s AND generation = %(generation)s AND name = %(name)s
        AND xmin = pg_current_xact_id()::xid
    RETURNING extract(epoch FROM finished_at)::text AS finished_at
)
SELECT coalesce((SELECT finished_at FROM stored), 'no row of this transaction')::double precision;

-- block: clean_session
BEGIN;
-- The connection is kept between runs. So first comes what DISCARD ALL does, which no transaction may contain.
SET SESSION AUTHORIZATION DEFAULT;
RESET ALL;
CLOSE ALL;
UNLISTEN *;
DISCARD TEMP;

-- block: check
-- Deferred constraints are checked with the role and the path that the function has set, and the table is found without them.
SET CONSTRAINTS ALL IMMEDIATE;
RESET ROLE;
SET LOCAL search_path TO DEFAULT;

-- name: prepare
-- To parse and plan them takes most of a short transaction's time.
PREPARE workorders_begin_%(version)s (uuid, integer, text, uuid, text, text, text) AS
-- use: insertion
PREPARE workorders_finish_%(version)s (uuid, integer, text, jsonb) AS
-- use: result

-- name: begin_prepared
-- use: clean_session
EXECUTE workorders_begin_%(version)s (
    %(work_order_id)s, %(generation)s, %(name)s, %(run_id)s, %(statement_timeout)s, %(lock_timeout)s, %(idle_timeout)s
);

-- name: finish_prepared
-- use: check
EXECUTE workorders_finish_%(version)s (%(work_order_id)s, %(generation)s, %(name)s, %(result)s);
COMMIT;

-- name: begin
-- use: clean_session
-- use: insertion

-- name: finish
-- use: check
-- use: result
COMMIT;

-- name: read
SELECT result::text, extract(epoch FROM finished_at)::double precision, run_id FROM workorders_steps
WHERE work_order_id = %(work_order_id)s AND generation = %(generation)s AND name = %(name)s;
