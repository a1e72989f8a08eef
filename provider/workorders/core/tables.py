"""The core's tables as SQLAlchemy sees them: what the migrations must end in, held together by a test.

Queries live in `.sql` files; nothing here runs one.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workorders.core.postgres.connection import SCHEMA

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    },
)

WORK_ORDER_STATES = (
    "pending",
    "running",
    "success",
    "failed",
    "crashed",
    "killed",
    "cancelled",
    "lost",
    "exception",
    "rejected",
    "parked",
)
RUN_STATES = (
    "available",
    "claimed",
    "started",
    "success",
    "failed",
    "crashed",
    "cancelled",
    "killed",
    "lost",
    "exception",
)
work_order_state = Enum(*WORK_ORDER_STATES, name="work_order_state", schema=SCHEMA, metadata=metadata)
run_state = Enum(*RUN_STATES, name="run_state", schema=SCHEMA, metadata=metadata)

_NOW = text("now()")


def _created_at() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW)


workflows = Table(
    "workflows",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    _created_at(),
    Column("definition", JSONB, nullable=False, server_default=text("'{}'")),
    Column("concurrency", Integer, CheckConstraint("concurrency > 0", name="concurrency")),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

triggers = Table(
    "triggers",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("type", Text, nullable=False),
    Column("workflow_id", Integer, ForeignKey(workflows.c.id), nullable=False),
    Column("definition", JSONB, nullable=False),
    _created_at(),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

# An ordered source within a trigger, known by a number so that the key of a work order stays 12 bytes long.
source_streams = Table(
    "source_streams",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("trigger_id", Integer, ForeignKey(triggers.c.id), nullable=False),
    Column("name", Text, nullable=False),
    # Whether its positions are drawn for keys: then the keys' rows alone say what is not new.
    Column("is_keyed", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("trigger_id", "name"),
)

# A source whose events are known by texts of any length: each text gets a number, which is its position in the stream.
# The row outlives its work order, so that a deleted event is not taken for a new one; it ends by its own time, if any.
source_keys = Table(
    "source_keys",
    metadata,
    Column("stream_id", Integer, ForeignKey(source_streams.c.id), primary_key=True),
    Column("key_hash", LargeBinary, primary_key=True),
    Column("position", BigInteger, Identity(always=True), nullable=False),
    _created_at(),
    Column("expires_at", DateTime(timezone=True)),
    Index("source_keys_expires_at_idx", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)

# Narrow on purpose: states change here, while the wide bodies rest in dataclips under the same key. No foreign keys,
# for each would cost a look-up and a row lock for every message; `create_for` is the only writer of all three tables.
# Columns stand widest first, which saves the padding between them; the lane came later, and is the eighth, which is the
# last one whose being NULL costs no byte.
work_orders = Table(
    "work_orders",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("position", BigInteger),
    _created_at(),
    Column("trigger_id", Integer, nullable=False),
    Column("workflow_id", Integer, nullable=False),
    Column("stream_id", Integer),
    Column("state", work_order_state, nullable=False),
    Column("lane", BigInteger),
    UniqueConstraint("stream_id", "position"),
    CheckConstraint("(stream_id IS NULL) = (position IS NULL)", name="source_key"),
    Index("work_orders_waiting_idx", "workflow_id", "id", postgresql_where=text("state = 'pending'")),
    Index(
        "work_orders_lane_idx",
        *("workflow_id", "lane", "position", "id"),
        postgresql_where=text("state = 'pending' AND lane IS NOT NULL"),
    ),
)

# The input of a work order has the work order's id.
dataclips = Table(
    "dataclips",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("body", JSONB),
    Column("request", JSONB, nullable=False),
)

rejections = Table(
    "rejections",
    metadata,
    Column("work_order_id", Uuid, primary_key=True),
    Column("code", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("request", JSONB, nullable=False),
    Column("raw", LargeBinary),
)

# A pending work order without a run is waiting for its first one, which gets its row when it is claimed; reruns and
# retries are rows from the start. No index names the state, for then no update of it could stay on its page; the fill
# factor leaves room there for the update that starts a run and the one that finishes it.
_AVAILABLE = "claimed_at IS NULL AND finished_at IS NULL"
runs = Table(
    "runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("work_order_id", Uuid, nullable=False),
    Column("group_id", Uuid),
    Column("lane", BigInteger),
    _created_at(),
    Column("not_before", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("claimed_at", DateTime(timezone=True)),
    Column("started_at", DateTime(timezone=True)),
    Column("heartbeat_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("workflow_id", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", run_state, nullable=False),
    Column("priority", SmallInteger, nullable=False, server_default=text("1")),
    Column("retry", SmallInteger, nullable=False, server_default=text("0")),
    Column("error_type", Text),
    Column("error", Text),
    Column("requested_by", Text),
    Column("why", Text),
    UniqueConstraint("work_order_id", "attempt"),
    Index("runs_available_idx", *("workflow_id", "priority", "not_before", "id"), postgresql_where=text(_AVAILABLE)),
    Index(
        "runs_at_work_idx",
        *("workflow_id", "group_id"),
        postgresql_where=text("claimed_at IS NOT NULL AND finished_at IS NULL"),
    ),
    Index(
        "runs_lane_idx",
        *("workflow_id", "lane", "not_before"),
        postgresql_where=text(f"{_AVAILABLE} AND lane IS NOT NULL"),
    ),
    postgresql_with={"fillfactor": 70},
)

# Who asks for a worker, and whose turn was given up for somebody. Apart from the workflows, whose rows claims lock.
turns = Table(
    "turns",
    metadata,
    Column("workflow_id", Integer, ForeignKey(workflows.c.id), primary_key=True, autoincrement=False),
    Column("asked_at", DateTime(timezone=True)),
    Column("given", Integer, nullable=False, server_default=text("0")),
    Column("given_at", DateTime(timezone=True)),
    Column("given_up", Text),
)

# Apart from the runs, so that their rows stay narrow and retention can empty these alone.
run_outputs = Table(
    "run_outputs",
    metadata,
    Column("run_id", Uuid, primary_key=True),
    Column("output", JSONB, nullable=False),
)

run_logs = Table(
    "run_logs",
    metadata,
    Column("run_id", Uuid, primary_key=True),
    Column("log", Text, nullable=False),
    Column("truncated", Boolean, nullable=False),
)
