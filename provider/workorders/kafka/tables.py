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
    CheckConstraint("start_offset >= 0 AND start_offset < end_offset", name="offsets"),
    CheckConstraint(
        "(finished_at IS NULL) = (created IS NULL) AND (finished_at IS NULL) = (rejected IS NULL)", name="finished"
    ),
    # A partition belongs to at most one unfinished batch: isolation and order rest on this one index.
    Index(
        "kafka_ranges_unfinished_idx",
        "trigger_id",
        "topic",
        "partition",
        unique=True,
        postgresql_where=text("finished_at IS NULL"),
    ),
)
