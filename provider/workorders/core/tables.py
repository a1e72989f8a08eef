"""The core's tables as SQLAlchemy sees them: what the migrations must end in, held together by a test.

Queries live in `.sql` files; nothing here runs one.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workorders.core.database import SCHEMA

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
    UniqueConstraint("trigger_id", "name"),
)

# Narrow on purpose: states change here, while the wide bodies rest in dataclips under the same key. No foreign keys,
# for each would cost a look-up and a row lock for every message; `create_for` is the only writer of all three tables.
# Columns stand widest first, which saves the padding between them.
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
    UniqueConstraint("stream_id", "position"),
    CheckConstraint("(stream_id IS NULL) = (position IS NULL)", name="source_key"),
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

runs = Table(
    "runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("work_order_id", Uuid, ForeignKey(work_orders.c.id, ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", run_state, nullable=False),
    _created_at(),
    Column("claimed_at", DateTime(timezone=True)),
    Column("started_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("error_type", Text),
    Column("error", Text),
    UniqueConstraint("work_order_id", "attempt"),
)
