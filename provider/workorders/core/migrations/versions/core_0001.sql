-- Workflows, and the triggers and streams that work orders come from.

CREATE TABLE workorders.workflows (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    definition jsonb NOT NULL DEFAULT '{}',
    concurrency integer,
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Retention deletes the first work orders after this number of days; null for never.
    kept_days double precision GENERATED ALWAYS AS (
        coalesce(definition #>> '{retention,delete_after}', definition #>> '{retention,delete_errors_after}')::double precision
            / 86400
    ) STORED,
    CONSTRAINT workflows_concurrency_check CHECK (concurrency > 0)
);

CREATE TABLE workorders.triggers (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    type text NOT NULL,
    workflow_id integer NOT NULL REFERENCES workorders.workflows (id),
    definition jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- An ordered source within a trigger. Its number keeps the source key of a work order 12 bytes long.
CREATE TABLE workorders.source_streams (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
    name text NOT NULL,
    UNIQUE (trigger_id, name)
);


-- Work orders.

CREATE TYPE workorders.work_order_state AS ENUM (
    'pending', 'requeued', 'running', 'success', 'failed', 'crashed', 'killed', 'cancelled', 'lost', 'exception', 'rejected',
    'parked'
);

-- Narrow, because states change here; the wide bodies are in dataclips under the same id. There are no foreign keys,
-- because each would cost a lookup and a row lock per message; create_for alone writes work_orders, dataclips and
-- rejections. The widest columns come first, which saves the padding between them. The ordering key is eighth, the last column
-- whose NULL costs no byte.
CREATE TABLE workorders.work_orders (
    id uuid PRIMARY KEY,
    position bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    stream_id integer,
    state workorders.work_order_state NOT NULL,
    ordering_key bigint,
    -- The source key: one work order per event, for every creator.
    UNIQUE (stream_id, position),
    CONSTRAINT work_orders_source_key_check CHECK ((stream_id IS NULL) = (position IS NULL))
);
-- A work order is pending exactly if it waits for its first run, and requeued exactly if it has a run that is available.
CREATE INDEX work_orders_waiting_idx ON workorders.work_orders (workflow_id, id) WHERE state = 'pending';
-- Streams are numbered from 1; without one, the order is that of creation.
CREATE INDEX work_orders_ordering_key_idx
    ON workorders.work_orders (workflow_id, ordering_key, coalesce(stream_id, 0), position, id)
    WHERE state IN ('pending', 'requeued') AND ordering_key IS NOT NULL;
-- The states that few work orders are in at a time; pending has its own index, rejected its own table.
CREATE INDEX work_orders_few_idx ON workorders.work_orders (state, id)
    WHERE state NOT IN ('pending', 'success', 'rejected');
-- For a workflow whose unsuccessful work orders are few among millions of another one. What succeeds at once is never in it.
CREATE INDEX work_orders_unsuccessful_idx ON workorders.work_orders (workflow_id, state, id)
    WHERE state IN ('requeued', 'failed', 'crashed', 'killed', 'lost', 'exception', 'parked');

-- The input of the work order with the same id.
CREATE TABLE workorders.dataclips (
    id uuid PRIMARY KEY,
    body jsonb,
    request jsonb NOT NULL
);

CREATE TABLE workorders.rejections (
    work_order_id uuid PRIMARY KEY,
    code text NOT NULL,
    detail text NOT NULL,
    request jsonb NOT NULL,
    raw bytea,
    -- The work order that a duplicate repeats.
    original_id uuid
);
CREATE INDEX rejections_original_id_idx ON workorders.rejections (original_id) WHERE original_id IS NOT NULL;


-- Runs.

CREATE TYPE workorders.run_state AS ENUM (
    'available', 'claimed', 'started', 'success', 'failed', 'crashed', 'cancelled', 'killed', 'lost', 'exception'
);

-- The first run of a work order gets its row when it is claimed; reruns and retries have theirs from the start.
-- No index contains the state, because then no update of it could stay on its page (a HOT update): the indexes tell an
-- available run from a claimed one by its times. The fill factor leaves space for the updates that start and finish it.
CREATE TABLE workorders.runs (
    id uuid PRIMARY KEY,
    work_order_id uuid NOT NULL,
    worker_id uuid,
    ordering_key bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    not_before timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    workflow_id integer NOT NULL,
    attempt integer NOT NULL,
    generation integer NOT NULL DEFAULT 1,
    state workorders.run_state NOT NULL,
    priority smallint NOT NULL DEFAULT 1,
    retry smallint NOT NULL DEFAULT 0,
    error_type text,
    error text,
    actor text,
    reason text,
    UNIQUE (work_order_id, attempt)
) WITH (fillfactor = 70);
CREATE INDEX runs_available_idx ON workorders.runs (workflow_id, priority, not_before, id)
    WHERE claimed_at IS NULL AND finished_at IS NULL;
CREATE INDEX runs_at_work_idx ON workorders.runs (workflow_id, worker_id)
    WHERE claimed_at IS NOT NULL AND finished_at IS NULL;
-- Until when a run keeps its ordering key from the others.
CREATE INDEX runs_ordering_key_idx
    ON workorders.runs (workflow_id, ordering_key, (CASE WHEN claimed_at IS NULL THEN not_before ELSE 'infinity' END))
    WHERE finished_at IS NULL AND ordering_key IS NOT NULL;

-- Who may own runs. A worker adds its row before its first claim, and each heartbeat moves the time at which its runs are
-- recovered and the row is deleted. The owner of a workflow's delegated runs has no such time.
CREATE TABLE workorders.workers (
    id uuid PRIMARY KEY,
    expires_at timestamptz,
    workflow_id integer NOT NULL
) WITH (fillfactor = 50);

-- Outputs and logs are apart from the runs, so that rows of runs stay narrow and retention can empty these alone. A run that
-- has neither has no row.
CREATE TABLE workorders.run_results (
    run_id uuid PRIMARY KEY,
    output jsonb,
    log text NOT NULL,
    log_truncated boolean NOT NULL
);

-- What a run's function finished within its work order: a later attempt of the same generation gets the result instead of calling again.
CREATE TABLE workorders.steps (
    work_order_id uuid NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now(),
    run_id uuid NOT NULL,
    generation integer NOT NULL,
    committed_elsewhere boolean NOT NULL,
    name text NOT NULL,
    result jsonb NOT NULL,
    PRIMARY KEY (work_order_id, generation, name)
);

-- Work orders that retention has deleted or erased, whose rows in `workorders_steps` of their workflow's database are still to be
-- deleted. The connection is Airflow's.
CREATE TABLE workorders.expired_steps (
    work_order_id uuid NOT NULL,
    expired_at timestamptz NOT NULL DEFAULT now(),
    connection text NOT NULL,
    PRIMARY KEY (connection, work_order_id)
);
CREATE INDEX expired_steps_expired_at_idx ON workorders.expired_steps (connection, expired_at);


-- Admission: idempotency keys and ignored repeats.

-- Which work order has a key, until when; a key without an end is kept. The key is a hash, so that a row stays narrow
-- and contains no data of the event. The source key tells a work order that a replay restores from another event with
-- the same key. A row outlives its work order, so that a deleted event does not count as new.
CREATE TABLE workorders.idempotency_keys (
    key uuid NOT NULL,
    work_order_id uuid NOT NULL,
    expires_at timestamptz,
    position bigint,
    trigger_id integer NOT NULL,
    stream_id integer,
    PRIMARY KEY (trigger_id, key)
);
CREATE INDEX idempotency_keys_expires_at_idx ON workorders.idempotency_keys (expires_at);

-- Repeats that created no work order, because their key was known. A work order gets its row with the first repeat. On
-- half-empty pages the counter is updated in place.
CREATE TABLE workorders.ignored_repeats (
    work_order_id uuid PRIMARY KEY,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL
) WITH (fillfactor = 50);


-- Admission: sequences.

-- One row per key. Every number up to the high-water mark is admitted or given up. Only the partial index contains a
-- column that changes with each number, so that an update stays on its page.
CREATE TABLE workorders.sequences (
    key uuid NOT NULL,
    high_water_mark bigint,
    parked_since timestamptz,
    alerted_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    trigger_id integer NOT NULL,
    parked integer NOT NULL DEFAULT 0,
    name text NOT NULL,
    -- Retention erases the names of sequences that have been unused for its time.
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (trigger_id, key)
) WITH (fillfactor = 80);
CREATE INDEX sequences_gap_idx ON workorders.sequences (trigger_id, key)
    WHERE parked > 0 OR alerted_since IS NOT NULL;

-- Few rows, which can afford the foreign key: deleting a parked work order leaves no number behind.
CREATE TABLE workorders.parked_work_orders (
    work_order_id uuid NOT NULL UNIQUE REFERENCES workorders.work_orders (id) ON DELETE CASCADE,
    key uuid NOT NULL,
    number bigint NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT now(),
    trigger_id integer NOT NULL,
    PRIMARY KEY (trigger_id, key, number)
);

-- The order within an ordering key of work orders that were admitted in another order than their source's. Few rows, and only
-- while a work order of the sequence is unfinished.
CREATE TABLE workorders.sequence_places (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    work_order_id uuid NOT NULL UNIQUE REFERENCES workorders.work_orders (id) ON DELETE CASCADE,
    key uuid NOT NULL,
    ordering_key bigint NOT NULL,
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL
);
CREATE INDEX sequence_places_key_idx ON workorders.sequence_places (trigger_id, key);
CREATE INDEX sequence_places_ordering_key_idx ON workorders.sequence_places (workflow_id, ordering_key, place);

-- What people decided about gaps. Rows are only added.
CREATE TABLE workorders.sequence_decisions (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decided_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    reason text NOT NULL,
    trigger_id integer NOT NULL,
    key uuid NOT NULL,
    kind text NOT NULL,
    from_number bigint,
    to_number bigint,
    released integer NOT NULL,
    account text,
    CONSTRAINT sequence_decisions_kind_check CHECK (kind IN ('skip', 'release', 'drop'))
);
CREATE INDEX sequence_decisions_key_idx ON workorders.sequence_decisions (trigger_id, key);


-- Admission: limits.

-- Admissions to a workflow with limits lock its row, one after the other.
CREATE TABLE workorders.workflow_counts (
    workflow_id integer PRIMARY KEY,
    day date NOT NULL,
    admitted bigint NOT NULL
) WITH (fillfactor = 50);


-- History: search and counts.

-- The words of work orders, for full-text search, with what the list is filtered by. Apart from work orders and
-- dataclips: creating work orders pays nothing for these indexes, which are filled afterwards.
CREATE TABLE workorders.search_words (
    id uuid PRIMARY KEY,
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    ordering_key bigint,
    words tsvector NOT NULL
);
-- The newest first within a trigger, a workflow, or an ordering key.
CREATE INDEX search_words_trigger_idx ON workorders.search_words (trigger_id, id);
CREATE INDEX search_words_workflow_idx ON workorders.search_words (workflow_id, id);
CREATE INDEX search_words_ordering_key_idx ON workorders.search_words (ordering_key, id)
    WHERE ordering_key IS NOT NULL;
-- The index collects words in its pending list up to 4 MB and merges them at once. That is many times cheaper than one
-- by one, and only the filling pays for it.
CREATE INDEX search_words_words_idx ON workorders.search_words USING gin (words)
    WITH (fastupdate = on, gin_pending_list_limit = 4096);

-- How far the filling of search_words has come; and when retention last ended, and last did a step.
CREATE TABLE workorders.history_marks (
    name text PRIMARY KEY,
    id uuid NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workorders.state_counts (
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    state workorders.work_order_state NOT NULL,
    work_orders bigint NOT NULL,
    counted_at timestamptz NOT NULL,
    seconds double precision NOT NULL,
    PRIMARY KEY (trigger_id, workflow_id, state)
);


-- Bulk operations: reruns and cancels of many work orders.

-- last_id is the work order up to which the job is done, worker the one whose steps count.
CREATE TABLE workorders.bulk_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    filter jsonb NOT NULL,
    options jsonb NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL DEFAULT 'waiting',
    total bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    skipped jsonb NOT NULL DEFAULT '{}',
    last_id uuid,
    worker uuid,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    heartbeat_at timestamptz,
    finished_at timestamptz,
    account text,
    CONSTRAINT bulk_jobs_kind_check CHECK (kind IN ('rerun', 'cancel')),
    CONSTRAINT bulk_jobs_state_check CHECK (state IN ('waiting', 'running', 'finished', 'failed', 'cancelled')),
    CONSTRAINT bulk_jobs_reason_check CHECK (btrim(actor) <> '' AND btrim(reason) <> ''),
    -- A failed job has an error; a waiting one may have a sentence about what it waits for.
    CONSTRAINT bulk_jobs_error_check CHECK (state = 'waiting' OR (state = 'failed') = (error IS NOT NULL))
);

-- Commands of operators that no other table records: of the outbox, of retention, and of bulk operations.
CREATE TABLE workorders.operator_actions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    account text NOT NULL,
    action text NOT NULL,
    details jsonb NOT NULL,
    reason text NOT NULL,
    CONSTRAINT operator_actions_reason_check CHECK (btrim(actor) <> '' AND btrim(reason) <> '')
);

-- One row: what the last audit found, which the next one replaces.
CREATE TABLE workorders.last_audit (
    id smallint PRIMARY KEY DEFAULT 1,
    report jsonb NOT NULL,
    CONSTRAINT last_audit_single_check CHECK (id = 1)
);


-- Vacuum of the tables that grow with the number of events.

-- By default, a fifth of a table must be dead, or new, before it is vacuumed: of 100 million rows 20 million, which then
-- take hours in one go. Until then, dead rows fill the disk, and scans of indexes step over them. With
-- these shares, each vacuum is a tenth or a quarter of that, and comes as much sooner.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'work_orders', 'dataclips', 'rejections', 'runs', 'run_results', 'steps', 'expired_steps', 'search_words'
    ] LOOP
        EXECUTE format(
            'ALTER TABLE workorders.%I SET (autovacuum_vacuum_scale_factor = 0.02, '
            'autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02)', name
        );
    END LOOP;
END $$;

-- Functions that read JSON.

-- Returns NULL for JSON that is too long as text. A few KB of jsonb can be gigabytes of text, because it stores 1e-9999
-- without its digits. Such messages are rejected, but a row that came in another way would fail each statement that
-- reads it, and with it all rows of that statement. So the text is made under a savepoint. An input has at most 32 MiB,
-- and its text at most about three times as much.
CREATE FUNCTION workorders.json_text(value jsonb, pretty boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    max_bytes CONSTANT integer := 128 * 1024 * 1024;
    written text;
BEGIN
    IF pretty THEN
        written := jsonb_pretty(value);
    ELSE
        written := value::text;
    END IF;
    RETURN CASE WHEN octet_length(written) <= max_bytes THEN written END;
EXCEPTION
    -- internal_error is what Postgres calls a request for more than 1 GB of memory.
    WHEN program_limit_exceeded OR statement_too_complex OR out_of_memory OR internal_error OR data_corrupted THEN
        RETURN NULL;
END $$;

CREATE FUNCTION workorders.json_shown(value jsonb, pretty boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN coalesce(
        workorders.json_text(value, pretty),
        -- Indents alone can make a deep value too long.
        CASE WHEN pretty THEN workorders.json_text(value) END,
        '"unreadable: Postgres cannot write this JSON out, because it is too long as text"'
    );
END $$;

-- Stops before the inputs of one claim fill the memory of their worker. An input that cannot be written out takes
-- seconds and ends the reading as well, because many of them must not take longer than a statement may. No plan is
-- kept, because a plan that was made for an empty table would scan a full one.
CREATE FUNCTION workorders.read_inputs(ids uuid[], max_bytes bigint)
RETURNS TABLE (request bytea, body bytea, is_unreadable boolean)
LANGUAGE plpgsql STABLE STRICT SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    clip record;
    request_text text;
    body_text text;
    bytes bigint := 0;
BEGIN
    FOR clip IN
        SELECT dataclips.request, dataclips.body
        FROM unnest(ids) WITH ORDINALITY AS given (id, place)
        LEFT JOIN workorders.dataclips ON dataclips.id = given.id
        ORDER BY given.place
    LOOP
        request_text := workorders.json_text(clip.request);
        body_text := workorders.json_text(clip.body);
        is_unreadable := num_nonnulls(clip.request, clip.body) > num_nonnulls(request_text, body_text);
        request := convert_to(coalesce(request_text, '{}'), 'UTF8');
        body := CASE WHEN NOT is_unreadable THEN convert_to(body_text, 'UTF8') END;
        RETURN NEXT;
        bytes := bytes + octet_length(request) + coalesce(octet_length(body), 0);
        EXIT WHEN is_unreadable OR bytes >= max_bytes;
    END LOOP;
END $$;
