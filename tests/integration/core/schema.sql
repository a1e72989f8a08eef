CREATE SCHEMA workorders;
CREATE TYPE workorders.run_state AS ENUM (
    'available',
    'claimed',
    'started',
    'success',
    'failed',
    'crashed',
    'cancelled',
    'killed',
    'lost',
    'exception'
);
CREATE TYPE workorders.work_order_state AS ENUM (
    'pending',
    'requeued',
    'running',
    'success',
    'failed',
    'crashed',
    'killed',
    'cancelled',
    'lost',
    'exception',
    'rejected',
    'parked'
);
CREATE FUNCTION workorders.enqueue(topic text, key bytea, value bytea, headers jsonb DEFAULT NULL::jsonb, partition integer DEFAULT NULL::integer, timestamp_ms bigint DEFAULT NULL::bigint, event_id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
DECLARE
    event uuid := coalesce(event_id, gen_random_uuid());
BEGIN
    PERFORM workorders.enqueue_many(
        ARRAY[topic], ARRAY[key], ARRAY[value], ARRAY[headers], ARRAY[partition], ARRAY[timestamp_ms], ARRAY[event]
    );
    RETURN event;
END $$;
CREATE FUNCTION workorders.enqueue(topic text, key text, value text, headers jsonb DEFAULT NULL::jsonb, partition integer DEFAULT NULL::integer, timestamp_ms bigint DEFAULT NULL::bigint, event_id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE sql
    RETURN workorders.enqueue(topic, convert_to(key, 'UTF8'::name), convert_to(value, 'UTF8'::name), headers, partition, timestamp_ms, event_id);
CREATE FUNCTION workorders.enqueue(topic text, key text, value jsonb, headers jsonb DEFAULT NULL::jsonb, partition integer DEFAULT NULL::integer, timestamp_ms bigint DEFAULT NULL::bigint, event_id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE sql
    RETURN workorders.enqueue(topic, key, (value)::text, headers, partition, timestamp_ms, event_id);
CREATE FUNCTION workorders.enqueue_many(topics text[], keys bytea[], vals bytea[], headers jsonb[] DEFAULT NULL::jsonb[], partitions integer[] DEFAULT NULL::integer[], timestamps_ms bigint[] DEFAULT NULL::bigint[], event_ids uuid[] DEFAULT NULL::uuid[]) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    many CONSTANT integer := cardinality(topics);
    hashes bytea[];
    locks integer[];
    refused record;
    ids bigint[];
BEGIN
    IF many IS DISTINCT FROM cardinality(keys) OR many IS DISTINCT FROM cardinality(vals)
        OR many <> coalesce(cardinality(headers), many) OR many <> coalesce(cardinality(partitions), many)
        OR many <> coalesce(cardinality(timestamps_ms), many) OR many <> coalesce(cardinality(event_ids), many)
    THEN
        RAISE EXCEPTION 'The arrays given to workorders.enqueue_many differ in length; nothing was enqueued.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT message.place, message.topic, message.fault INTO refused
    FROM (
        SELECT given.place, given.topic, CASE
            WHEN given.topic IS NULL OR given.topic !~ '^[a-zA-Z0-9._-]{1,249}$' OR given.topic IN ('.', '..')
                THEN 'its topic is no name that Kafka takes (1 to 249 of a-z A-Z 0-9 . _ -)'
            WHEN given.topic = coalesce(identity.checkpoint_topic, 'workorders-outbox-checkpoints')
                THEN 'the relay keeps its own checkpoints in this topic; choose another one'
            WHEN given.partition < 0 THEN 'its partition is negative'
            WHEN given.timestamp_ms <= 0 THEN 'its timestamp is 0, which Kafka''s client takes for none, or negative'
            WHEN NOT workorders.outbox_headers_are_valid(given.headers)
                THEN 'its headers are no array of pairs [name, text, null or {"base64": ...}]'
            WHEN size.bytes > identity.max_message_bytes
                THEN format('its %s bytes are more than the %s that are allowed', size.bytes, identity.max_message_bytes)
        END AS fault
        FROM unnest(topics, keys, vals, headers, partitions, timestamps_ms) WITH ORDINALITY
            AS given (topic, key, value, headers, partition, timestamp_ms, place)
        CROSS JOIN workorders.outbox_identity AS identity
        CROSS JOIN LATERAL (
            SELECT 128 + coalesce(octet_length(given.key), 0) + coalesce(octet_length(given.value), 0)
                + coalesce(octet_length(given.headers::text), 0) AS bytes
        ) AS size
    ) AS message
    WHERE message.fault IS NOT NULL
    ORDER BY message.place LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Message % of % for topic % cannot be sent: %; nothing was enqueued.',
            refused.place, many, coalesce(left(refused.topic, 249), 'null'), refused.fault
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(made.hash ORDER BY made.place),
        array_agg(workorders.outbox_lock_number(made.hash)) FILTER (WHERE made.key IS NOT NULL)
    INTO hashes, locks
    FROM (
        SELECT workorders.outbox_hash(given.topic, given.key) AS hash, given.key, given.place
        FROM unnest(topics, keys) WITH ORDINALITY AS given (topic, key, place)
    ) AS made;
    PERFORM workorders.outbox_lock(locks);
    WITH written AS (
        INSERT INTO workorders.outbox_messages (event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
        SELECT coalesce(given.event_id, gen_random_uuid()), given.timestamp_ms, given.partition,
            get_byte(given.hash, 4) & 15, given.topic, given.key, given.value, nullif(given.headers, '[]')
        FROM unnest(topics, keys, vals, headers, partitions, timestamps_ms, event_ids, hashes) WITH ORDINALITY
            AS given (topic, key, value, headers, partition, timestamp_ms, event_id, hash, place)
        ORDER BY given.place
        RETURNING id
    )
    SELECT array_agg(written.id ORDER BY written.id) INTO ids FROM written;
    RETURN ids;
END $_$;
CREATE FUNCTION workorders.json_shown(value jsonb, pretty boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
BEGIN
    RETURN coalesce(
        workorders.json_text(value, pretty),
        -- Indents alone can make a deep value too long.
        CASE WHEN pretty THEN workorders.json_text(value) END,
        '"unreadable: Postgres cannot write this JSON out, because it is too long as text"'
    );
END $$;
CREATE FUNCTION workorders.json_text(value jsonb, pretty boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
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
CREATE FUNCTION workorders.outbox_hash(topic text, key bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN sha256(((convert_to(topic, 'UTF8'::name) || '\x00'::bytea) || COALESCE(('\x01'::bytea || key), '\x'::bytea)));
CREATE FUNCTION workorders.outbox_headers_are_valid(headers jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (headers IS NULL) THEN true WHEN (jsonb_typeof(headers) <> 'array'::text) THEN false ELSE (NOT (EXISTS (SELECT FROM jsonb_array_elements(outbox_headers_are_valid.headers) header(value) WHERE CASE WHEN (jsonb_typeof(header.value) <> 'array'::text) THEN true WHEN ((jsonb_array_length(header.value) <> 2) OR (jsonb_typeof((header.value -> 0)) <> 'string'::text)) THEN true WHEN (jsonb_typeof((header.value -> 1)) = ANY (ARRAY['string'::text, 'null'::text])) THEN false WHEN (jsonb_typeof((header.value -> 1)) <> 'object'::text) THEN true WHEN (jsonb_typeof(((header.value -> 1) -> 'base64'::text)) IS DISTINCT FROM 'string'::text) THEN true ELSE (((header.value -> 1) ->> 'base64'::text) !~ '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'::text) END))) END;
CREATE FUNCTION workorders.outbox_lock(numbers integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4564061, number)
    FROM (SELECT DISTINCT unnest(numbers) AS number ORDER BY 1) AS given;
END $$;
CREATE FUNCTION workorders.outbox_lock_number(hash bytea) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((get_byte(hash, 0) << 8) | get_byte(hash, 1)) & 1023);
CREATE FUNCTION workorders.outbox_try_lock(numbers integer[]) RETURNS integer[]
    LANGUAGE plpgsql
    SET lock_timeout TO '100ms'
    AS $$
BEGIN
    PERFORM workorders.outbox_lock(numbers);
    RETURN '{}';
EXCEPTION WHEN lock_not_available THEN
    RETURN ARRAY(
        SELECT number FROM (SELECT DISTINCT unnest(numbers) AS number) AS given
        WHERE NOT pg_try_advisory_xact_lock(4564061, number)
    );
END $$;
CREATE FUNCTION workorders.read_inputs(ids uuid[], max_bytes bigint) RETURNS TABLE(request bytea, body bytea, is_unreadable boolean)
    LANGUAGE plpgsql STABLE STRICT
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
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
CREATE TABLE workorders.bulk_jobs (
    id bigint NOT NULL,
    kind text NOT NULL,
    filter jsonb NOT NULL,
    options jsonb NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    total bigint NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    skipped jsonb DEFAULT '{}'::jsonb NOT NULL,
    last_id uuid,
    worker uuid,
    error text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    finished_at timestamp with time zone,
    account text,
    CONSTRAINT bulk_jobs_error_check CHECK (((state = 'waiting'::text) OR ((state = 'failed'::text) = (error IS NOT NULL)))),
    CONSTRAINT bulk_jobs_kind_check CHECK ((kind = ANY (ARRAY['rerun'::text, 'cancel'::text]))),
    CONSTRAINT bulk_jobs_reason_check CHECK (((btrim(actor) <> ''::text) AND (btrim(reason) <> ''::text))),
    CONSTRAINT bulk_jobs_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text, 'finished'::text, 'failed'::text, 'cancelled'::text])))
);
ALTER TABLE workorders.bulk_jobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.bulk_jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.dataclips (
    id uuid NOT NULL,
    body jsonb,
    request jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.expired_steps (
    work_order_id uuid NOT NULL,
    expired_at timestamp with time zone DEFAULT now() NOT NULL,
    connection text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.history_marks (
    name text NOT NULL,
    id uuid NOT NULL,
    moved_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE workorders.idempotency_keys (
    key uuid NOT NULL,
    work_order_id uuid NOT NULL,
    expires_at timestamp with time zone,
    "position" bigint,
    trigger_id integer NOT NULL,
    stream_id integer
);
CREATE TABLE workorders.ignored_repeats (
    work_order_id uuid NOT NULL,
    count bigint NOT NULL,
    last_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE workorders.kafka_batches (
    id bigint NOT NULL,
    trigger_id integer NOT NULL,
    planned_at timestamp with time zone DEFAULT now() NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    open_until timestamp with time zone,
    filter jsonb
);
ALTER TABLE workorders.kafka_batches ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.kafka_batches_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.kafka_decisions (
    id bigint NOT NULL,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    trigger_id integer NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    kind text NOT NULL,
    from_topic_id text NOT NULL,
    from_offset bigint NOT NULL,
    to_topic_id text NOT NULL,
    to_offset bigint NOT NULL,
    lost_start bigint,
    lost_end bigint,
    superseded_batch_id bigint,
    account text,
    CONSTRAINT kafka_decisions_actor_check CHECK (((btrim(actor) <> ''::text) AND (btrim(reason) <> ''::text))),
    CONSTRAINT kafka_decisions_kind_check CHECK ((kind = ANY (ARRAY['skip-lost'::text, 'accept-topic'::text, 'seek'::text]))),
    CONSTRAINT kafka_decisions_lost_check CHECK ((((lost_start IS NULL) = (lost_end IS NULL)) AND (lost_start < lost_end))),
    CONSTRAINT kafka_decisions_offsets_check CHECK (((from_offset >= 0) AND (to_offset >= 0)))
);
ALTER TABLE workorders.kafka_decisions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.kafka_decisions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE workorders.kafka_lag_samples (
    trigger_id integer NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    minute timestamp with time zone NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    topic_id text NOT NULL,
    next_offset bigint NOT NULL,
    last_stable bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE workorders.kafka_ledger (
    trigger_id integer NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    topic_id text NOT NULL,
    cluster_id text,
    stream_id integer NOT NULL,
    start_offset bigint NOT NULL,
    next_offset bigint NOT NULL,
    stored_end bigint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    status_since timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone,
    last_error text,
    mean_message_bytes double precision,
    generation bigint DEFAULT 0 NOT NULL,
    alerted_since timestamp with time zone,
    created bigint DEFAULT 0 NOT NULL,
    rejected bigint DEFAULT 0 NOT NULL,
    existing bigint DEFAULT 0 NOT NULL,
    filtered bigint DEFAULT 0 NOT NULL,
    CONSTRAINT kafka_ledger_offsets_check CHECK (((next_offset >= start_offset) AND (start_offset >= 0))),
    CONSTRAINT kafka_ledger_status_check CHECK ((status = ANY (ARRAY['active'::text, 'stalled'::text])))
);
CREATE TABLE workorders.kafka_ranges (
    batch_id bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    trigger_id integer NOT NULL,
    topic_id text NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    planned_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    created bigint,
    rejected bigint,
    last_error text,
    generation bigint DEFAULT 0 NOT NULL,
    existing bigint DEFAULT 0 NOT NULL,
    filtered bigint DEFAULT 0 NOT NULL,
    superseded_by bigint,
    CONSTRAINT kafka_ranges_finished_check CHECK ((((finished_at IS NULL) = (created IS NULL)) AND ((finished_at IS NULL) = (rejected IS NULL)))),
    CONSTRAINT kafka_ranges_offsets_check CHECK (((start_offset >= 0) AND (start_offset < end_offset))),
    CONSTRAINT kafka_ranges_superseded_check CHECK (((superseded_by IS NULL) OR (finished_at IS NULL)))
);
CREATE TABLE workorders.kafka_subscriptions (
    trigger_id integer NOT NULL,
    subscription text NOT NULL,
    polled_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE VIEW workorders.kafka_unfinished_ranges AS
 SELECT batch_id,
    topic,
    partition,
    trigger_id,
    topic_id,
    start_offset,
    end_offset,
    planned_at,
    finished_at,
    created,
    rejected,
    last_error,
    generation,
    existing,
    filtered,
    superseded_by
   FROM workorders.kafka_ranges
  WHERE ((finished_at IS NULL) AND (superseded_by IS NULL));
CREATE TABLE workorders.kafka_virtual_partitions (
    batch_id bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    range_start bigint NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    finished_at timestamp with time zone,
    created bigint,
    rejected bigint,
    existing bigint,
    filtered bigint,
    CONSTRAINT kafka_virtual_partitions_finished_check CHECK ((((finished_at IS NULL) = (created IS NULL)) AND ((finished_at IS NULL) = (rejected IS NULL)) AND ((finished_at IS NULL) = (existing IS NULL)) AND ((finished_at IS NULL) = (filtered IS NULL)))),
    CONSTRAINT kafka_virtual_partitions_offsets_check CHECK (((start_offset >= 0) AND (start_offset < end_offset)))
);
CREATE TABLE workorders.last_audit (
    id smallint DEFAULT 1 NOT NULL,
    report jsonb NOT NULL,
    CONSTRAINT last_audit_single_check CHECK ((id = 1))
);
CREATE TABLE workorders.operator_actions (
    id bigint NOT NULL,
    acted_at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    account text NOT NULL,
    action text NOT NULL,
    details jsonb NOT NULL,
    reason text NOT NULL,
    CONSTRAINT operator_actions_reason_check CHECK (((btrim(actor) <> ''::text) AND (btrim(reason) <> ''::text)))
);
ALTER TABLE workorders.operator_actions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.operator_actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.outbox_claims (
    shard smallint NOT NULL,
    batch bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    bucket smallint NOT NULL,
    ids bigint[] NOT NULL
);
ALTER TABLE ONLY workorders.outbox_claims ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE workorders.outbox_counters (
    topic text NOT NULL COLLATE pg_catalog."C",
    shard smallint NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    compacted bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    last_sent_at timestamp with time zone
);
CREATE TABLE workorders.outbox_holds (
    id bigint NOT NULL,
    kind text NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    bucket smallint,
    key bytea,
    reason text NOT NULL,
    tries integer DEFAULT 1 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    next_try_at timestamp with time zone,
    CONSTRAINT outbox_holds_bucket_check CHECK (((kind = 'topic'::text) = (bucket IS NULL))),
    CONSTRAINT outbox_holds_kind_check CHECK ((kind = ANY (ARRAY['topic'::text, 'key'::text, 'message'::text])))
);
ALTER TABLE workorders.outbox_holds ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.outbox_holds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.outbox_identity (
    id smallint DEFAULT 1 NOT NULL,
    outbox_id uuid DEFAULT gen_random_uuid() NOT NULL,
    max_message_bytes integer DEFAULT 1000000 NOT NULL,
    shards smallint,
    transactional_id_prefix text,
    cluster_id text,
    checkpoint_topic text COLLATE pg_catalog."C",
    checkpoint_topic_id text,
    CONSTRAINT outbox_identity_shards_check CHECK (((shards >= 1) AND (shards <= 16))),
    CONSTRAINT outbox_identity_single_check CHECK ((id = 1))
);
CREATE TABLE workorders.outbox_messages (
    id bigint NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    event_id uuid NOT NULL,
    timestamp_ms bigint,
    partition integer,
    bucket smallint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key bytea,
    value bytea,
    headers jsonb,
    hold_id bigint,
    CONSTRAINT outbox_messages_bucket_check CHECK (((bucket >= '-16'::integer) AND (bucket <= 15))),
    CONSTRAINT outbox_messages_hold_check CHECK (((hold_id IS NULL) = (bucket >= 0))),
    CONSTRAINT outbox_messages_partition_check CHECK ((partition >= 0)),
    CONSTRAINT outbox_messages_timestamp_check CHECK ((timestamp_ms >= 0)),
    CONSTRAINT outbox_messages_topic_check CHECK (((topic ~ '^[a-zA-Z0-9._-]{1,249}$'::text) AND (topic <> ALL (ARRAY['.'::text, '..'::text]))))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_analyze_scale_factor='0.1');
ALTER TABLE workorders.outbox_messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.outbox_messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.outbox_published (
    run_id uuid NOT NULL,
    id bigint NOT NULL,
    event_id uuid NOT NULL,
    bucket smallint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE workorders.outbox_secrets (
    id smallint DEFAULT 1 NOT NULL,
    checkpoint_key bytea NOT NULL,
    CONSTRAINT outbox_secrets_single_check CHECK ((id = 1))
);
CREATE TABLE workorders.outbox_shards (
    shard smallint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    owner text,
    leased_until timestamp with time zone,
    last_batch bigint DEFAULT 0 NOT NULL,
    checkpoint_batch bigint DEFAULT 0 NOT NULL,
    last_error text,
    CONSTRAINT outbox_shards_shard_check CHECK (((shard >= 0) AND (shard <= 15)))
);
CREATE TABLE workorders.parked_work_orders (
    work_order_id uuid NOT NULL,
    key uuid NOT NULL,
    number bigint NOT NULL,
    parked_at timestamp with time zone DEFAULT now() NOT NULL,
    trigger_id integer NOT NULL
);
CREATE TABLE workorders.rejections (
    work_order_id uuid NOT NULL,
    code text NOT NULL,
    detail text NOT NULL,
    request jsonb NOT NULL,
    raw bytea,
    original_id uuid
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.run_results (
    run_id uuid NOT NULL,
    output jsonb,
    log text NOT NULL,
    log_truncated boolean NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.runs (
    id uuid NOT NULL,
    work_order_id uuid NOT NULL,
    worker_id uuid,
    ordering_key bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    not_before timestamp with time zone DEFAULT now() NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    workflow_id integer NOT NULL,
    attempt integer NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    state workorders.run_state NOT NULL,
    priority smallint DEFAULT 1 NOT NULL,
    retry smallint DEFAULT 0 NOT NULL,
    error_type text,
    error text,
    actor text,
    reason text
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.search_words (
    id uuid NOT NULL,
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    ordering_key bigint,
    words tsvector NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.sequence_decisions (
    id integer NOT NULL,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    trigger_id integer NOT NULL,
    key uuid NOT NULL,
    kind text NOT NULL,
    from_number bigint,
    to_number bigint,
    released integer NOT NULL,
    account text,
    CONSTRAINT sequence_decisions_kind_check CHECK ((kind = ANY (ARRAY['skip'::text, 'release'::text, 'drop'::text])))
);
ALTER TABLE workorders.sequence_decisions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.sequence_decisions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.sequence_places (
    place bigint NOT NULL,
    work_order_id uuid NOT NULL,
    key uuid NOT NULL,
    ordering_key bigint NOT NULL,
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL
);
ALTER TABLE workorders.sequence_places ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.sequence_places_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.sequences (
    key uuid NOT NULL,
    high_water_mark bigint,
    parked_since timestamp with time zone,
    alerted_since timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    trigger_id integer NOT NULL,
    parked integer DEFAULT 0 NOT NULL,
    name text NOT NULL,
    used_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE workorders.source_streams (
    id integer NOT NULL,
    trigger_id integer NOT NULL,
    name text NOT NULL
);
ALTER TABLE workorders.source_streams ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.source_streams_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.state_counts (
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    state workorders.work_order_state NOT NULL,
    work_orders bigint NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    seconds double precision NOT NULL
);
CREATE TABLE workorders.steps (
    work_order_id uuid NOT NULL,
    finished_at timestamp with time zone DEFAULT now() NOT NULL,
    run_id uuid NOT NULL,
    generation integer NOT NULL,
    committed_elsewhere boolean NOT NULL,
    name text NOT NULL,
    result jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.triggers (
    id integer NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    workflow_id integer NOT NULL,
    definition jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE workorders.triggers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.triggers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE workorders.webhooks (
    name text NOT NULL,
    path text NOT NULL,
    definition jsonb NOT NULL,
    stored_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE workorders.work_orders (
    id uuid NOT NULL,
    "position" bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    trigger_id integer NOT NULL,
    workflow_id integer NOT NULL,
    stream_id integer,
    state workorders.work_order_state NOT NULL,
    ordering_key bigint,
    CONSTRAINT work_orders_source_key_check CHECK (((stream_id IS NULL) = ("position" IS NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE workorders.workers (
    id uuid NOT NULL,
    expires_at timestamp with time zone,
    workflow_id integer NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE workorders.workflow_counts (
    workflow_id integer NOT NULL,
    day date NOT NULL,
    admitted bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE workorders.workflows (
    id integer NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    definition jsonb DEFAULT '{}'::jsonb NOT NULL,
    concurrency integer,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    kept_days double precision GENERATED ALWAYS AS (((COALESCE((definition #>> '{retention,delete_after}'::text[]), (definition #>> '{retention,delete_errors_after}'::text[])))::double precision / (86400)::double precision)) STORED,
    CONSTRAINT workflows_concurrency_check CHECK ((concurrency > 0))
);
ALTER TABLE workorders.workflows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME workorders.workflows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY workorders.bulk_jobs
    ADD CONSTRAINT bulk_jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.dataclips
    ADD CONSTRAINT dataclips_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.expired_steps
    ADD CONSTRAINT expired_steps_pkey PRIMARY KEY (connection, work_order_id);
ALTER TABLE ONLY workorders.history_marks
    ADD CONSTRAINT history_marks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY workorders.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (trigger_id, key);
ALTER TABLE ONLY workorders.ignored_repeats
    ADD CONSTRAINT ignored_repeats_pkey PRIMARY KEY (work_order_id);
ALTER TABLE ONLY workorders.kafka_batches
    ADD CONSTRAINT kafka_batches_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.kafka_decisions
    ADD CONSTRAINT kafka_decisions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.kafka_lag_samples
    ADD CONSTRAINT kafka_lag_samples_pkey PRIMARY KEY (trigger_id, topic, partition, minute);
ALTER TABLE ONLY workorders.kafka_ledger
    ADD CONSTRAINT kafka_ledger_pkey PRIMARY KEY (trigger_id, topic, partition);
ALTER TABLE ONLY workorders.kafka_ranges
    ADD CONSTRAINT kafka_ranges_pkey PRIMARY KEY (batch_id, topic, partition, start_offset);
ALTER TABLE ONLY workorders.kafka_subscriptions
    ADD CONSTRAINT kafka_subscriptions_pkey PRIMARY KEY (trigger_id, subscription);
ALTER TABLE ONLY workorders.kafka_virtual_partitions
    ADD CONSTRAINT kafka_virtual_partitions_pkey PRIMARY KEY (batch_id, topic, partition, start_offset);
ALTER TABLE ONLY workorders.last_audit
    ADD CONSTRAINT last_audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.operator_actions
    ADD CONSTRAINT operator_actions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.outbox_claims
    ADD CONSTRAINT outbox_claims_pkey PRIMARY KEY (shard, batch, topic, bucket);
ALTER TABLE ONLY workorders.outbox_counters
    ADD CONSTRAINT outbox_counters_pkey PRIMARY KEY (topic, shard);
ALTER TABLE ONLY workorders.outbox_holds
    ADD CONSTRAINT outbox_holds_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.outbox_identity
    ADD CONSTRAINT outbox_identity_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.outbox_messages
    ADD CONSTRAINT outbox_messages_pkey PRIMARY KEY (topic, bucket, id);
ALTER TABLE ONLY workorders.outbox_published
    ADD CONSTRAINT outbox_published_pkey PRIMARY KEY (run_id, id);
ALTER TABLE ONLY workorders.outbox_secrets
    ADD CONSTRAINT outbox_secrets_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.outbox_shards
    ADD CONSTRAINT outbox_shards_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY workorders.parked_work_orders
    ADD CONSTRAINT parked_work_orders_pkey PRIMARY KEY (trigger_id, key, number);
ALTER TABLE ONLY workorders.parked_work_orders
    ADD CONSTRAINT parked_work_orders_work_order_id_key UNIQUE (work_order_id);
ALTER TABLE ONLY workorders.rejections
    ADD CONSTRAINT rejections_pkey PRIMARY KEY (work_order_id);
ALTER TABLE ONLY workorders.run_results
    ADD CONSTRAINT run_results_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY workorders.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.runs
    ADD CONSTRAINT runs_work_order_id_attempt_key UNIQUE (work_order_id, attempt);
ALTER TABLE ONLY workorders.search_words
    ADD CONSTRAINT search_words_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.sequence_decisions
    ADD CONSTRAINT sequence_decisions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.sequence_places
    ADD CONSTRAINT sequence_places_pkey PRIMARY KEY (place);
ALTER TABLE ONLY workorders.sequence_places
    ADD CONSTRAINT sequence_places_work_order_id_key UNIQUE (work_order_id);
ALTER TABLE ONLY workorders.sequences
    ADD CONSTRAINT sequences_pkey PRIMARY KEY (trigger_id, key);
ALTER TABLE ONLY workorders.source_streams
    ADD CONSTRAINT source_streams_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.source_streams
    ADD CONSTRAINT source_streams_trigger_id_name_key UNIQUE (trigger_id, name);
ALTER TABLE ONLY workorders.state_counts
    ADD CONSTRAINT state_counts_pkey PRIMARY KEY (trigger_id, workflow_id, state);
ALTER TABLE ONLY workorders.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (work_order_id, generation, name);
ALTER TABLE ONLY workorders.triggers
    ADD CONSTRAINT triggers_name_key UNIQUE (name);
ALTER TABLE ONLY workorders.triggers
    ADD CONSTRAINT triggers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.webhooks
    ADD CONSTRAINT webhooks_path_key UNIQUE (path) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY workorders.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY workorders.work_orders
    ADD CONSTRAINT work_orders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.work_orders
    ADD CONSTRAINT work_orders_stream_id_position_key UNIQUE (stream_id, "position");
ALTER TABLE ONLY workorders.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY workorders.workflow_counts
    ADD CONSTRAINT workflow_counts_pkey PRIMARY KEY (workflow_id);
ALTER TABLE ONLY workorders.workflows
    ADD CONSTRAINT workflows_name_key UNIQUE (name);
ALTER TABLE ONLY workorders.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (id);
CREATE INDEX expired_steps_expired_at_idx ON workorders.expired_steps USING btree (connection, expired_at);
CREATE INDEX idempotency_keys_expires_at_idx ON workorders.idempotency_keys USING btree (expires_at);
CREATE INDEX kafka_batches_open_idx ON workorders.kafka_batches USING btree (trigger_id) WHERE (open_until IS NOT NULL);
CREATE INDEX kafka_batches_trigger_id_id_idx ON workorders.kafka_batches USING btree (trigger_id, id);
CREATE INDEX kafka_decisions_trigger_id_id_idx ON workorders.kafka_decisions USING btree (trigger_id, id);
CREATE INDEX kafka_ranges_planned_at_idx ON workorders.kafka_ranges USING btree (trigger_id, planned_at);
CREATE INDEX kafka_ranges_start_offset_idx ON workorders.kafka_ranges USING btree (trigger_id, topic, partition, start_offset);
CREATE UNIQUE INDEX kafka_ranges_unfinished_idx ON workorders.kafka_ranges USING btree (trigger_id, topic, partition) WHERE ((finished_at IS NULL) AND (superseded_by IS NULL));
CREATE UNIQUE INDEX outbox_holds_key_idx ON workorders.outbox_holds USING btree (topic, bucket, sha256(key)) NULLS NOT DISTINCT WHERE (kind = 'key'::text);
CREATE UNIQUE INDEX outbox_holds_topic_idx ON workorders.outbox_holds USING btree (topic) WHERE (kind = 'topic'::text);
CREATE INDEX outbox_messages_hold_idx ON workorders.outbox_messages USING btree (hold_id, id) WHERE (hold_id IS NOT NULL);
CREATE INDEX rejections_original_id_idx ON workorders.rejections USING btree (original_id) WHERE (original_id IS NOT NULL);
CREATE INDEX runs_at_work_idx ON workorders.runs USING btree (workflow_id, worker_id) WHERE ((claimed_at IS NOT NULL) AND (finished_at IS NULL));
CREATE INDEX runs_available_idx ON workorders.runs USING btree (workflow_id, priority, not_before, id) WHERE ((claimed_at IS NULL) AND (finished_at IS NULL));
CREATE INDEX runs_ordering_key_idx ON workorders.runs USING btree (workflow_id, ordering_key, (
CASE
    WHEN (claimed_at IS NULL) THEN not_before
    ELSE 'infinity'::timestamp with time zone
END)) WHERE ((finished_at IS NULL) AND (ordering_key IS NOT NULL));
CREATE INDEX search_words_ordering_key_idx ON workorders.search_words USING btree (ordering_key, id) WHERE (ordering_key IS NOT NULL);
CREATE INDEX search_words_trigger_idx ON workorders.search_words USING btree (trigger_id, id);
CREATE INDEX search_words_words_idx ON workorders.search_words USING gin (words) WITH (fastupdate='on', gin_pending_list_limit='4096');
CREATE INDEX search_words_workflow_idx ON workorders.search_words USING btree (workflow_id, id);
CREATE INDEX sequence_decisions_key_idx ON workorders.sequence_decisions USING btree (trigger_id, key);
CREATE INDEX sequence_places_key_idx ON workorders.sequence_places USING btree (trigger_id, key);
CREATE INDEX sequence_places_ordering_key_idx ON workorders.sequence_places USING btree (workflow_id, ordering_key, place);
CREATE INDEX sequences_gap_idx ON workorders.sequences USING btree (trigger_id, key) WHERE ((parked > 0) OR (alerted_since IS NOT NULL));
CREATE INDEX work_orders_few_idx ON workorders.work_orders USING btree (state, id) WHERE (state <> ALL (ARRAY['pending'::workorders.work_order_state, 'success'::workorders.work_order_state, 'rejected'::workorders.work_order_state]));
CREATE INDEX work_orders_ordering_key_idx ON workorders.work_orders USING btree (workflow_id, ordering_key, COALESCE(stream_id, 0), "position", id) WHERE ((state = ANY (ARRAY['pending'::workorders.work_order_state, 'requeued'::workorders.work_order_state])) AND (ordering_key IS NOT NULL));
CREATE INDEX work_orders_unsuccessful_idx ON workorders.work_orders USING btree (workflow_id, state, id) WHERE (state = ANY (ARRAY['requeued'::workorders.work_order_state, 'failed'::workorders.work_order_state, 'crashed'::workorders.work_order_state, 'killed'::workorders.work_order_state, 'lost'::workorders.work_order_state, 'exception'::workorders.work_order_state, 'parked'::workorders.work_order_state]));
CREATE INDEX work_orders_waiting_idx ON workorders.work_orders USING btree (workflow_id, id) WHERE (state = 'pending'::workorders.work_order_state);
ALTER TABLE ONLY workorders.kafka_batches
    ADD CONSTRAINT kafka_batches_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.kafka_decisions
    ADD CONSTRAINT kafka_decisions_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.kafka_ledger
    ADD CONSTRAINT kafka_ledger_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES workorders.source_streams(id);
ALTER TABLE ONLY workorders.kafka_ledger
    ADD CONSTRAINT kafka_ledger_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.kafka_ranges
    ADD CONSTRAINT kafka_ranges_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES workorders.kafka_batches(id);
ALTER TABLE ONLY workorders.kafka_ranges
    ADD CONSTRAINT kafka_ranges_superseded_by_fkey FOREIGN KEY (superseded_by) REFERENCES workorders.kafka_decisions(id);
ALTER TABLE ONLY workorders.kafka_ranges
    ADD CONSTRAINT kafka_ranges_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.kafka_subscriptions
    ADD CONSTRAINT kafka_subscriptions_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.kafka_virtual_partitions
    ADD CONSTRAINT kafka_virtual_partitions_batch_id_topic_partition_range_st_fkey FOREIGN KEY (batch_id, topic, partition, range_start) REFERENCES workorders.kafka_ranges(batch_id, topic, partition, start_offset) ON DELETE CASCADE;
ALTER TABLE ONLY workorders.outbox_claims
    ADD CONSTRAINT outbox_claims_shard_fkey FOREIGN KEY (shard) REFERENCES workorders.outbox_shards(shard);
ALTER TABLE ONLY workorders.outbox_published
    ADD CONSTRAINT outbox_published_run_id_fkey FOREIGN KEY (run_id) REFERENCES workorders.runs(id) ON DELETE CASCADE;
ALTER TABLE ONLY workorders.parked_work_orders
    ADD CONSTRAINT parked_work_orders_work_order_id_fkey FOREIGN KEY (work_order_id) REFERENCES workorders.work_orders(id) ON DELETE CASCADE;
ALTER TABLE ONLY workorders.sequence_places
    ADD CONSTRAINT sequence_places_work_order_id_fkey FOREIGN KEY (work_order_id) REFERENCES workorders.work_orders(id) ON DELETE CASCADE;
ALTER TABLE ONLY workorders.source_streams
    ADD CONSTRAINT source_streams_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES workorders.triggers(id);
ALTER TABLE ONLY workorders.triggers
    ADD CONSTRAINT triggers_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES workorders.workflows(id);
REVOKE ALL ON FUNCTION workorders.enqueue_many(topics text[], keys bytea[], vals bytea[], headers jsonb[], partitions integer[], timestamps_ms bigint[], event_ids uuid[]) FROM PUBLIC;
