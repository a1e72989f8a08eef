-- The ledger.

-- The truth about how far a partition was read. Kafka's committed offset follows it and is never read back.
CREATE TABLE workorders.kafka_ledger (
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
    topic text NOT NULL,
    partition integer NOT NULL,
    topic_id text NOT NULL,
    -- The cluster that the topic was found in; NULL if it is unknown.
    cluster_id text,
    stream_id integer NOT NULL REFERENCES workorders.source_streams (id),
    start_offset bigint NOT NULL,
    next_offset bigint NOT NULL,
    -- The highest end of what is stored of this log. It is past next_offset while virtual partitions before it are not
    -- finished, and after the ledger was set back.
    stored_end bigint NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'active',
    status_since timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    last_error text,
    mean_message_bytes double precision,
    -- The decision since which offsets of the same topic mean other messages; 0 until a log was truncated.
    generation bigint NOT NULL DEFAULT 0,
    -- The start of the stall that an alert was recorded for; NULL while no alert is open.
    alerted_since timestamptz,
    -- The counts of all ranges of the partition that were ingested, for metrics. A replay does not count.
    created bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,
    existing bigint NOT NULL DEFAULT 0,
    filtered bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (trigger_id, topic, partition),
    CONSTRAINT kafka_ledger_offsets_check CHECK (next_offset >= start_offset AND start_offset >= 0),
    CONSTRAINT kafka_ledger_status_check CHECK (status IN ('active', 'stalled'))
);

-- The names and patterns of topics that a trigger has polled. What existed then is in the ledger since, so a topic that is
-- found later was created later.
CREATE TABLE workorders.kafka_subscriptions (
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
    subscription text NOT NULL,
    polled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (trigger_id, subscription)
);

-- What a trigger's listener saw of a partition, one row per minute; the newest row is replaced until its minute is over.
-- It is read for metrics only, and a crash of Postgres may empty it.
CREATE UNLOGGED TABLE workorders.kafka_lag_samples (
    trigger_id integer NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    minute timestamptz NOT NULL,
    observed_at timestamptz NOT NULL,
    topic_id text NOT NULL,
    next_offset bigint NOT NULL,
    -- The end of what could be read: no open transaction began before it.
    last_stable bigint NOT NULL,
    PRIMARY KEY (trigger_id, topic, partition, minute)
)
WITH (fillfactor = 50);


-- Batches, the decisions of operators, and the ranges of batches.

-- A batch is the ranges of one ingest Dag run. It grows while messages arrive.
CREATE TABLE workorders.kafka_batches (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
    planned_at timestamptz NOT NULL DEFAULT now(),
    epoch bigint NOT NULL DEFAULT 0,
    -- The lease under which the batch's attempt adds ranges: until then the listener leaves free partitions to it. NULL
    -- while the batch does not grow, and -infinity if the attempt was told to add nothing any more.
    open_until timestamptz,
    -- The filter of the trigger when the batch was planned, which a replay uses; NULL if it had none.
    filter jsonb
);
CREATE INDEX kafka_batches_trigger_id_id_idx ON workorders.kafka_batches (trigger_id, id);
-- The batches that grow: one for most triggers, and those whose attempts died.
CREATE INDEX kafka_batches_open_idx ON workorders.kafka_batches (trigger_id) WHERE open_until IS NOT NULL;

-- What operators decided where Kafka lost data. Rows are only added.
CREATE TABLE workorders.kafka_decisions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decided_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    reason text NOT NULL,
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
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
    CONSTRAINT kafka_decisions_kind_check CHECK (kind IN ('skip-lost', 'accept-topic', 'seek')),
    CONSTRAINT kafka_decisions_offsets_check CHECK (from_offset >= 0 AND to_offset >= 0),
    CONSTRAINT kafka_decisions_lost_check CHECK (
        (lost_start IS NULL) = (lost_end IS NULL) AND lost_start < lost_end
    ),
    CONSTRAINT kafka_decisions_actor_check CHECK (btrim(actor) <> '' AND btrim(reason) <> '')
);
CREATE INDEX kafka_decisions_trigger_id_id_idx ON workorders.kafka_decisions (trigger_id, id);

-- A range is recorded before anything of it is read, and its offsets never change. finished_at and the counts are written
-- once, together with the work orders. Finished ranges of a batch that follow one another become one when the batch stops
-- to grow.
CREATE TABLE workorders.kafka_ranges (
    batch_id bigint NOT NULL REFERENCES workorders.kafka_batches (id),
    topic text NOT NULL,
    partition integer NOT NULL,
    trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
    topic_id text NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    planned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    created bigint,
    rejected bigint,
    last_error text,
    generation bigint NOT NULL DEFAULT 0,
    existing bigint NOT NULL DEFAULT 0,
    filtered bigint NOT NULL DEFAULT 0,
    superseded_by bigint REFERENCES workorders.kafka_decisions (id),
    PRIMARY KEY (batch_id, topic, partition, start_offset),
    CONSTRAINT kafka_ranges_offsets_check CHECK (start_offset >= 0 AND start_offset < end_offset),
    CONSTRAINT kafka_ranges_finished_check CHECK (
        (finished_at IS NULL) = (created IS NULL) AND (finished_at IS NULL) = (rejected IS NULL)
    ),
    CONSTRAINT kafka_ranges_superseded_check CHECK (superseded_by IS NULL OR finished_at IS NULL)
);
-- A partition has at most one unfinished range: isolation and order rest on this index.
CREATE UNIQUE INDEX kafka_ranges_unfinished_idx ON workorders.kafka_ranges (trigger_id, topic, partition)
    WHERE finished_at IS NULL AND superseded_by IS NULL;
-- The ranges that wait to be ingested. It has the columns that the table had when it was created.
CREATE VIEW workorders.kafka_unfinished_ranges AS
SELECT * FROM workorders.kafka_ranges WHERE finished_at IS NULL AND superseded_by IS NULL;
-- Tells when a trigger planned last, which its rate limit counts from.
CREATE INDEX kafka_ranges_planned_at_idx ON workorders.kafka_ranges (trigger_id, planned_at);
-- Leads from a work order's offset to its batch.
CREATE INDEX kafka_ranges_start_offset_idx ON workorders.kafka_ranges (trigger_id, topic, partition, start_offset);

-- The virtual partitions of a range that is cut, which together are the range. A row is written once more, with its work
-- orders. The ledger moves over those that are finished without a gap; the range is finished when all of them are.
CREATE TABLE workorders.kafka_virtual_partitions (
    batch_id bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    -- The start of the range.
    range_start bigint NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    finished_at timestamptz,
    created bigint,
    rejected bigint,
    existing bigint,
    filtered bigint,
    PRIMARY KEY (batch_id, topic, partition, start_offset),
    FOREIGN KEY (batch_id, topic, partition, range_start)
        REFERENCES workorders.kafka_ranges (batch_id, topic, partition, start_offset) ON DELETE CASCADE,
    CONSTRAINT kafka_virtual_partitions_offsets_check CHECK (start_offset >= 0 AND start_offset < end_offset),
    CONSTRAINT kafka_virtual_partitions_finished_check CHECK (
        (finished_at IS NULL) = (created IS NULL)
        AND (finished_at IS NULL) = (rejected IS NULL)
        AND (finished_at IS NULL) = (existing IS NULL)
        AND (finished_at IS NULL) = (filtered IS NULL)
    )
);
