-- Settings.

-- One row, inserted below. The first relay records what is null here, and every later relay must have the same.
CREATE TABLE workorders.outbox_identity (
    id smallint PRIMARY KEY DEFAULT 1,
    outbox_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- What the last relay's file allows.
    max_message_bytes integer NOT NULL DEFAULT 1000000,
    shards smallint,
    transactional_id_prefix text,
    cluster_id text,
    -- No message may be sent to it.
    checkpoint_topic text COLLATE "C",
    checkpoint_topic_id text,
    CONSTRAINT outbox_identity_single_check CHECK (id = 1),
    CONSTRAINT outbox_identity_shards_check CHECK (shards BETWEEN 1 AND 16)
);
INSERT INTO workorders.outbox_identity DEFAULT VALUES;

-- One row, inserted below. Apart from the identity, so that those who read it need no right to the key.
CREATE TABLE workorders.outbox_secrets (
    id smallint PRIMARY KEY DEFAULT 1,
    checkpoint_key bytea NOT NULL,
    CONSTRAINT outbox_secrets_single_check CHECK (id = 1)
);
INSERT INTO workorders.outbox_secrets (checkpoint_key)
VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));


-- Messages: waiting and held.

-- Messages that wait for Kafka, or are held. A row changes only if it is held or released, and is deleted after it was sent.
-- outbox_claims contains the rows of each batch, because marking the rows themselves would write each of them twice.
CREATE TABLE workorders.outbox_messages (
    id bigint GENERATED ALWAYS AS IDENTITY,
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_id uuid NOT NULL,
    timestamp_ms bigint,
    partition integer,
    bucket smallint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    key bytea,
    value bytea,
    headers jsonb,
    hold_id bigint,
    -- Topics take turns and keys keep their order, so rows are found by topic and bucket, the oldest first.
    PRIMARY KEY (topic, bucket, id),
    CONSTRAINT outbox_messages_topic_check CHECK (topic ~ '^[a-zA-Z0-9._-]{1,249}$' AND topic NOT IN ('.', '..')),
    -- Held messages are in other buckets, ~bucket, out of the way of all other messages.
    CONSTRAINT outbox_messages_bucket_check CHECK (bucket BETWEEN -16 AND 15),
    CONSTRAINT outbox_messages_hold_check CHECK ((hold_id IS NULL) = (bucket >= 0)),
    CONSTRAINT outbox_messages_partition_check CHECK (partition >= 0),
    CONSTRAINT outbox_messages_timestamp_check CHECK (timestamp_ms >= 0)
) WITH (
    -- Every row is deleted soon: vacuum by the number of dead rows, not by their share of a table that is mostly empty.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1
);

CREATE TABLE workorders.outbox_holds (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    topic text COLLATE "C" NOT NULL,
    bucket smallint,
    key bytea,
    reason text NOT NULL,
    tries integer NOT NULL DEFAULT 1,
    since timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz,
    CONSTRAINT outbox_holds_kind_check CHECK (kind IN ('topic', 'key', 'message')),
    CONSTRAINT outbox_holds_bucket_check CHECK ((kind = 'topic') = (bucket IS NULL))
);
CREATE UNIQUE INDEX outbox_holds_topic_idx ON workorders.outbox_holds (topic) WHERE kind = 'topic';
-- By a hash of the key, which may be longer than an index takes.
CREATE UNIQUE INDEX outbox_holds_key_idx ON workorders.outbox_holds (topic, bucket, sha256(key)) NULLS NOT DISTINCT
    WHERE kind = 'key';

CREATE INDEX outbox_messages_hold_idx ON workorders.outbox_messages (hold_id, id) WHERE hold_id IS NOT NULL;

-- Which run published a message, whatever became of it since. It is deleted with its run.
CREATE TABLE workorders.outbox_published (
    run_id uuid NOT NULL REFERENCES workorders.runs (id) ON DELETE CASCADE,
    id bigint NOT NULL,
    event_id uuid NOT NULL,
    bucket smallint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, id)
);


-- The relay: shards, their open batches, and counters.

-- All shards that there can ever be, inserted below. Those beyond the number of shards in use are idle.
CREATE TABLE workorders.outbox_shards (
    shard smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    owner text,
    leased_until timestamptz,
    last_batch bigint NOT NULL DEFAULT 0,
    -- The last batch whose checkpoint is known to be in Kafka. With -1 the next relay accepts any checkpoint.
    checkpoint_batch bigint NOT NULL DEFAULT 0,
    last_error text,
    CONSTRAINT outbox_shards_shard_check CHECK (shard BETWEEN 0 AND 15)
);
INSERT INTO workorders.outbox_shards (shard) SELECT generate_series(0, 15);

CREATE TABLE workorders.outbox_claims (
    shard smallint NOT NULL REFERENCES workorders.outbox_shards (shard),
    batch bigint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    bucket smallint NOT NULL,
    ids bigint[] NOT NULL,
    PRIMARY KEY (shard, batch, topic, bucket)
);
-- The ids of a batch are deleted soon after they are written, and compressing them would cost more than their bytes.
ALTER TABLE workorders.outbox_claims ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE workorders.outbox_counters (
    topic text COLLATE "C" NOT NULL,
    shard smallint NOT NULL,
    sent bigint NOT NULL DEFAULT 0,
    compacted bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    last_sent_at timestamptz,
    PRIMARY KEY (topic, shard)
);


-- Functions that enqueue.

-- One hash serves both purposes: its first two bytes are the number of the lock, the fifth is the bucket. Both must be
-- the same for everyone who writes the same key, so neither Postgres's own hash functions nor Python's are used.
CREATE FUNCTION workorders.outbox_hash(topic text, key bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(topic, 'UTF8') || '\x00'::bytea || coalesce('\x01'::bytea || key, ''::bytea));

-- Accepts an array of pairs [name, value]. A value is a text, null, or {"base64": text} for bytes that are no text.
CREATE FUNCTION workorders.outbox_headers_are_valid(headers jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN headers IS NULL THEN true
    WHEN jsonb_typeof(headers) <> 'array' THEN false
    ELSE NOT EXISTS (
        SELECT FROM jsonb_array_elements(headers) AS header
        WHERE CASE
            WHEN jsonb_typeof(header) <> 'array' THEN true
            WHEN jsonb_array_length(header) <> 2 OR jsonb_typeof(header -> 0) <> 'string' THEN true
            WHEN jsonb_typeof(header -> 1) IN ('string', 'null') THEN false
            WHEN jsonb_typeof(header -> 1) <> 'object' THEN true
            WHEN jsonb_typeof(header -> 1 -> 'base64') IS DISTINCT FROM 'string' THEN true
            ELSE header -> 1 ->> 'base64' !~ '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'
        END
    )
END;

-- Keys share 1,024 locks, whatever a transaction writes. The lock table of a server has 64 entries for each connection that
-- it allows (6,400 with the default of 100), and one lock takes one entry, however many wait for it. So the outbox takes at
-- most a sixth of it, and two writers of one key each wait for each other without need once in 1,024 times.
CREATE FUNCTION workorders.outbox_lock_number(hash bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (get_byte(hash, 0) << 8 | get_byte(hash, 1)) & 1023;

-- Writers of one key take turns until their transactions end, so that ids within a key grow in commit order. Locks come
-- before ids: an id that was drawn before waiting would be lower than that of the writer waited for. They are taken in
-- one order, so that calls do not deadlock; a transaction with several calls can, unless it sorts them.
CREATE FUNCTION workorders.outbox_lock(numbers integer[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4564061, number)
    FROM (SELECT DISTINCT unnest(numbers) AS number ORDER BY 1) AS given;
END $$;

-- The same for a caller that has other things to do. It waits for the end of a short transaction, and for so little time
-- that Postgres does not look for a deadlock meanwhile. If a lock is not free by then, it takes those that are, and
-- returns the others.
CREATE FUNCTION workorders.outbox_try_lock(numbers integer[]) RETURNS integer[]
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    PERFORM workorders.outbox_lock(numbers);
    RETURN '{}';
EXCEPTION WHEN lock_not_available THEN
    RETURN ARRAY(
        SELECT number FROM (SELECT DISTINCT unnest(numbers) AS number) AS given
        WHERE NOT pg_try_advisory_xact_lock(4564061, number)
    );
END $$;

-- Returns the ids of the messages, in their order.
CREATE FUNCTION workorders.enqueue_many(
    topics text[], keys bytea[], vals bytea[], headers jsonb[] DEFAULT NULL, partitions integer[] DEFAULT NULL,
    timestamps_ms bigint[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
END $$;

CREATE FUNCTION workorders.enqueue(
    topic text, key bytea, value bytea, headers jsonb DEFAULT NULL, partition integer DEFAULT NULL,
    timestamp_ms bigint DEFAULT NULL, event_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    event uuid := coalesce(event_id, gen_random_uuid());
BEGIN
    PERFORM workorders.enqueue_many(
        ARRAY[topic], ARRAY[key], ARRAY[value], ARRAY[headers], ARRAY[partition], ARRAY[timestamp_ms], ARRAY[event]
    );
    RETURN event;
END $$;

CREATE FUNCTION workorders.enqueue(
    topic text, key text, value text, headers jsonb DEFAULT NULL, partition integer DEFAULT NULL,
    timestamp_ms bigint DEFAULT NULL, event_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE sql
RETURN workorders.enqueue(
    topic, convert_to(key, 'UTF8'), convert_to(value, 'UTF8'), headers, partition, timestamp_ms, event_id
);

CREATE FUNCTION workorders.enqueue(
    topic text, key text, value jsonb, headers jsonb DEFAULT NULL, partition integer DEFAULT NULL,
    timestamp_ms bigint DEFAULT NULL, event_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE sql
RETURN workorders.enqueue(topic, key, value::text, headers, partition, timestamp_ms, event_id);

REVOKE ALL ON FUNCTION workorders.enqueue_many FROM PUBLIC;
