"""The Kafka room's tables as SQLAlchemy sees them; a test holds them to the migrations."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from workorders.core.tables import metadata, source_streams, triggers

_NOW = text("now()")

# The truth about how far a partition was read. Kafka's committed offset follows it and is never read back.
kafka_ledger = Table(
    "kafka_ledger",
    metadata,
    Column("trigger_id", Integer, ForeignKey(triggers.c.id), primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("topic_id", Text, nullable=False),
    Column("stream_id", Integer, ForeignKey(source_streams.c.id), nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default=text("'active'")),
    Column("status_since", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_attempt_at", DateTime(timezone=True)),
    Column("last_error", Text),
    Column("mean_message_bytes", Float),
    # Number of the decision since which offsets of the same topic mean other messages; 0 until a log was cut short.
    Column("generation", BigInteger, nullable=False, server_default=text("0")),
    # Since when the stall lasts that an alert was recorded for; none while no alert is open.
    Column("alerted_since", DateTime(timezone=True)),
    CheckConstraint("next_offset >= start_offset AND start_offset >= 0", name="offsets"),
    CheckConstraint("status IN ('active', 'stalled')", name="status"),
)

kafka_batches = Table(
    "kafka_batches",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("trigger_id", Integer, ForeignKey(triggers.c.id), nullable=False),
    Column("planned_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("handed_over_at", DateTime(timezone=True)),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Index(None, "trigger_id", "id"),
)

# What operators decided where Kafka lost data. Rows are only added.
kafka_decisions = Table(
    "kafka_decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("decided_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("trigger_id", Integer, ForeignKey(triggers.c.id), nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("from_topic_id", Text, nullable=False),
    Column("from_offset", BigInteger, nullable=False),
    Column("to_topic_id", Text, nullable=False),
    Column("to_offset", BigInteger, nullable=False),
    Column("lost_start", BigInteger),
    Column("lost_end", BigInteger),
    Column("superseded_batch_id", BigInteger, ForeignKey(kafka_batches.c.id)),
    Column("epoch", BigInteger, nullable=False),
    Column("account", Text),
    Column("request_key", Text),
    CheckConstraint("kind IN ('resume', 'accept-topic', 'start-over')", name="kind"),
    CheckConstraint("from_offset >= 0 AND to_offset >= 0", name="offsets"),
    CheckConstraint("(lost_start IS NULL) = (lost_end IS NULL) AND lost_start < lost_end", name="lost"),
    CheckConstraint("btrim(who) <> '' AND btrim(why) <> ''", name="reason"),
    Index(None, "trigger_id", "id"),
    # A request is decided once, however often its task is cleared.
    Index(
        "kafka_decisions_request_idx",
        "request_key",
        "partition",
        unique=True,
        postgresql_where=text("request_key IS NOT NULL"),
    ),
)

# What was planned never changes; finished_at and the counts are written once, with the work orders.
kafka_ranges = Table(
    "kafka_ranges",
    metadata,
    Column("batch_id", BigInteger, ForeignKey(kafka_batches.c.id), primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("trigger_id", Integer, ForeignKey(triggers.c.id), nullable=False),
    Column("topic_id", Text, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Column("created", BigInteger),
    Column("rejected", BigInteger),
    Column("last_error", Text),
    Column("generation", BigInteger, nullable=False, server_default=text("0")),
    Column("already_there", BigInteger, nullable=False, server_default=text("0")),
    Column("superseded_by", BigInteger, ForeignKey(kafka_decisions.c.id)),
    # The breaker's sentence of this range, and the rules that it was judged by; none while it has not tripped.
    Column("breaker_rules", Text),
    Column("breaker_verdict", Text),
    CheckConstraint("start_offset >= 0 AND start_offset < end_offset", name="offsets"),
    CheckConstraint(
        "(finished_at IS NULL) = (created IS NULL) AND (finished_at IS NULL) = (rejected IS NULL)", name="finished"
    ),
    CheckConstraint("superseded_by IS NULL OR finished_at IS NULL", name="superseded"),
    CheckConstraint("(breaker_rules IS NULL) = (breaker_verdict IS NULL)", name="breaker"),
    # A partition belongs to at most one unfinished batch: isolation and order rest on this one index.
    Index(
        "kafka_ranges_unfinished_idx",
        "trigger_id",
        "topic",
        "partition",
        unique=True,
        postgresql_where=text("finished_at IS NULL AND superseded_by IS NULL"),
    ),
)
