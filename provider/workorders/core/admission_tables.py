"""The tables of admission as SQLAlchemy sees them: keys, sequences, limits; a test holds them to the migrations."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workorders.core.tables import metadata, work_orders

_NOW = text("now()")


def _time(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=None if nullable else _NOW)


# Who holds a key, until when. The key is a hash, so that a row stays narrow and no event's data stands here. The source
# key tells a work order that a replay restores from another event with the same key.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", Uuid, nullable=False),
    Column("work_order_id", Uuid, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False, index=True),
    Column("position", BigInteger),
    Column("trigger_id", Integer, nullable=False),
    Column("stream_id", Integer),
    PrimaryKeyConstraint("trigger_id", "key"),
)

# Which work order a duplicate repeats; a duplicate is a rejected work order.
duplicates = Table(
    "duplicates",
    metadata,
    Column("work_order_id", Uuid, primary_key=True),
    Column("original_id", Uuid, nullable=False, index=True),
)

# Repeats that created no work order of their own, for their source named them by a key that was known.
repeats = Table(
    "repeats",
    metadata,
    Column("work_order_id", Uuid, primary_key=True),
    Column("times", BigInteger, nullable=False),
    Column("last_at", DateTime(timezone=True), nullable=False),
    Column("last_request", JSONB),
    postgresql_with={"fillfactor": 50},
)

# One row a key: every number up to the mark is dealt with. Nothing but the partial index names a column that changes
# with each number, so that an update stays on its page.
sequences = Table(
    "sequences",
    metadata,
    Column("key", Uuid, nullable=False),
    Column("mark", BigInteger),
    _time("parked_since"),
    _time("wait_until"),
    _time("alerted_since"),
    _time("created_at", nullable=False),
    Column("trigger_id", Integer, nullable=False),
    Column("parked", Integer, nullable=False, server_default=text("0")),
    Column("name", Text, nullable=False),
    _time("used_at", nullable=False),
    PrimaryKeyConstraint("trigger_id", "key"),
    postgresql_with={"fillfactor": 80},
)
Index(
    "sequences_gap_idx",
    sequences.c.trigger_id,
    sequences.c.key,
    postgresql_where=text("parked > 0 OR alerted_since IS NOT NULL"),
)

# Few rows, so they can afford the foreign key: whoever deletes a parked work order leaves no number behind.
parked_work_orders = Table(
    "parked_work_orders",
    metadata,
    Column("work_order_id", Uuid, ForeignKey(work_orders.c.id, ondelete="CASCADE"), nullable=False, unique=True),
    Column("key", Uuid, nullable=False),
    Column("number", BigInteger, nullable=False),
    _time("parked_at", nullable=False),
    Column("trigger_id", Integer, nullable=False),
    PrimaryKeyConstraint("trigger_id", "key", "number"),
)

# The order in a lane of work orders that were let in in another order than that of their source. Few, and only while
# one of their sequence is unfinished.
sequence_places = Table(
    "sequence_places",
    metadata,
    Column("place", BigInteger, Identity(always=True), primary_key=True),
    Column("work_order_id", Uuid, ForeignKey(work_orders.c.id, ondelete="CASCADE"), nullable=False, unique=True),
    Column("key", Uuid, nullable=False),
    Column("lane", BigInteger, nullable=False),
    Column("trigger_id", Integer, nullable=False),
    Column("workflow_id", Integer, nullable=False),
)
Index("sequence_places_key_idx", sequence_places.c.trigger_id, sequence_places.c.key)
Index("sequence_places_lane_idx", sequence_places.c.workflow_id, sequence_places.c.lane, sequence_places.c.place)

sequence_decisions = Table(
    "sequence_decisions",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    _time("decided_at", nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("trigger_id", Integer, nullable=False),
    Column("key", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("from_mark", BigInteger),
    Column("to_mark", BigInteger),
    Column("released", Integer, nullable=False),
    Column("account", Text),
    CheckConstraint("kind IN ('wait', 'skip', 'release', 'drop')", name="kind"),
)
Index("sequence_decisions_key_idx", sequence_decisions.c.trigger_id, sequence_decisions.c.key)

# The row that admissions to a workflow with limits take turns at.
workflow_counts = Table(
    "workflow_counts",
    metadata,
    Column("workflow_id", Integer, primary_key=True, autoincrement=False),
    Column("day", Date, nullable=False),
    Column("admitted", BigInteger, nullable=False),
    postgresql_with={"fillfactor": 50},
)

# A bucket a trigger. Not logged: what is lost in a crash is that a bucket was not full.
trigger_rates = Table(
    "trigger_rates",
    metadata,
    Column("trigger_id", Integer, primary_key=True, autoincrement=False),
    Column("granted", Boolean, nullable=False),
    Column("held", Double, nullable=False),
    Column("filled_at", DateTime(timezone=True), nullable=False),
    prefixes=["UNLOGGED"],
    postgresql_with={"fillfactor": 50},
)
