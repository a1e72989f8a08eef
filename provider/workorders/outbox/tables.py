"""The outbox's tables as SQLAlchemy sees them; a test holds them to the migrations."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workorders.core.tables import metadata

_NOW = text("now()")
_ZERO = text("0")
_TOPIC = Text(collation="C")


def _message_columns() -> list[Column[object]]:
    """Columns that a message has wherever it is."""
    return [
        Column("event_id", Uuid, nullable=False),
        Column("timestamp_ms", BigInteger),
        Column("partition", Integer),
        Column("bucket", SmallInteger, nullable=False),
        Column("topic", _TOPIC, nullable=False),
        Column("key", LargeBinary),
        Column("value", LargeBinary),
        Column("headers", JSONB),
    ]


# One row, made by the migration.
outbox_settings = Table(
    "outbox_settings",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False, server_default=text("1")),
    Column("outbox_id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("max_message_bytes", Integer, nullable=False, server_default=text("1000000")),
    Column("retention_seconds", BigInteger, nullable=False, server_default=_ZERO),
    Column("generation", Integer, nullable=False, server_default=_ZERO),
    Column("shards", SmallInteger, nullable=False, server_default=text("1")),
    # Where the last markers of shards lie: no destination of messages.
    Column("markers_topics", ARRAY(Text), nullable=False, server_default=text("'{workorders-outbox-markers}'")),
    Column("only_listed_topics", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("id = 1", name="single"),
    CheckConstraint("shards BETWEEN 1 AND 16", name="shards"),
)

# One row, made by the migration; apart from the settings, so that readers of these need no right to it.
outbox_secrets = Table(
    "outbox_secrets",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False, server_default=text("1")),
    Column("marker_key", LargeBinary, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

outbox_topics = Table(
    "outbox_topics",
    metadata,
    Column("topic", _TOPIC, primary_key=True),
    Column("compact", Boolean, nullable=False, server_default=text("false")),
    Column("on_refused", Text, nullable=False, server_default=text("'hold'")),
    Column("max_message_bytes", Integer),
    CheckConstraint("on_refused IN ('hold', 'set-aside')", name="on_refused"),
)

# What waits. A row never changes, and is deleted once it was sent: what a batch holds stands in outbox_claims, for
# marking the rows themselves would write each of them twice.
outbox_messages = Table(
    "outbox_messages",
    metadata,
    Column("id", BigInteger, Identity(always=True)),
    Column("enqueued_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    *_message_columns(),
    # Topics take turns and keys keep their order, so rows are found by topic and bucket, oldest first.
    PrimaryKeyConstraint("topic", "bucket", "id"),
    CheckConstraint("topic ~ '^[a-zA-Z0-9._-]{1,249}$' AND topic NOT IN ('.', '..')", name="topic"),
    CheckConstraint("bucket BETWEEN 0 AND 15", name="bucket"),
    CheckConstraint("partition >= 0", name="partition"),
    CheckConstraint("timestamp_ms >= 0", name="timestamp"),
)

outbox_holds = Table(
    "outbox_holds",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("topic", _TOPIC, nullable=False),
    Column("bucket", SmallInteger),
    Column("key", LargeBinary),
    Column("reason", Text, nullable=False),
    Column("tries", Integer, nullable=False, server_default=text("1")),
    Column("since", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("next_try_at", DateTime(timezone=True)),
    CheckConstraint("kind IN ('topic', 'key', 'message')", name="kind"),
    CheckConstraint("(kind = 'topic') = (bucket IS NULL)", name="bucket"),
    Index("outbox_holds_topic_idx", "topic", unique=True, postgresql_where=text("kind = 'topic'")),
)
# By a hash of the key, which may be longer than an index takes.
Index(
    "outbox_holds_key_idx",
    outbox_holds.c.topic,
    outbox_holds.c.bucket,
    func.sha256(outbox_holds.c.key),
    unique=True,
    postgresql_nulls_not_distinct=True,
    postgresql_where=text("kind = 'key'"),
)

# Rows of held keys, out of the way of all others, with the ids that they had.
outbox_held = Table(
    "outbox_held",
    metadata,
    Column("hold_id", BigInteger, ForeignKey(outbox_holds.c.id), nullable=False),
    Column("id", BigInteger, nullable=False),
    Column("enqueued_at", DateTime(timezone=True), nullable=False),
    *_message_columns(),
    PrimaryKeyConstraint("hold_id", "id"),
)

outbox_sent = Table(
    "outbox_sent",
    metadata,
    Column("id", BigInteger, nullable=False),
    Column("sent_at", DateTime(timezone=True), nullable=False, server_default=_NOW, index=True),
    Column("enqueued_at", DateTime(timezone=True), nullable=False),
    *_message_columns(),
)

# All that there can ever be, made by the migration. Those behind the number of shards in use are idle.
outbox_shards = Table(
    "outbox_shards",
    metadata,
    Column("shard", SmallInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False, server_default=_ZERO),
    # Of the number of shards that this one was last settled under; behind the settings' own, its claims may be open.
    Column("generation", Integer, nullable=False, server_default=_ZERO),
    Column("owner", Text),
    Column("leased_until", DateTime(timezone=True)),
    Column("last_batch", BigInteger, nullable=False, server_default=_ZERO),
    # The last batch whose marker is known to be in Kafka; -1 lets the next relay take what it finds there.
    Column("marked_batch", BigInteger, nullable=False, server_default=_ZERO),
    Column("last_error", Text),
    # What its batches are sent under, written down by its last relay that sent with markers.
    Column("transactional_id_prefix", Text),
    Column("markers_outbox_id", Uuid),
    Column("markers_cluster", Text),
    Column("markers_topic", Text),
    Column("markers_topic_id", Text),
    CheckConstraint("shard BETWEEN 0 AND 15", name="shard"),
)

outbox_claims = Table(
    "outbox_claims",
    metadata,
    Column("shard", SmallInteger, ForeignKey(outbox_shards.c.shard), nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("topic", _TOPIC, nullable=False),
    Column("bucket", SmallInteger, nullable=False),
    # Whether a marker goes with the batch: then, and only then, Kafka can tell whether it was sent.
    Column("marked", Boolean, nullable=False),
    Column("claimed_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("ids", ARRAY(BigInteger), nullable=False),
    PrimaryKeyConstraint("shard", "batch", "topic", "bucket"),
)

outbox_counters = Table(
    "outbox_counters",
    metadata,
    Column("topic", _TOPIC, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    Column("sent", BigInteger, nullable=False, server_default=_ZERO),
    Column("compacted", BigInteger, nullable=False, server_default=_ZERO),
    Column("failed", BigInteger, nullable=False, server_default=_ZERO),
    Column("last_sent_at", DateTime(timezone=True)),
    PrimaryKeyConstraint("topic", "shard"),
)
