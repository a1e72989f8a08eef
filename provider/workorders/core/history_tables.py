"""The tables of search, bulk jobs and retention as SQLAlchemy sees them; a test holds them to the migrations."""

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
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from workorders.core.tables import metadata, source_streams, work_order_state, work_orders

_NOW = text("now()")
_NO_SKIPPED = text("'{}'")

# Reruns, cancels and exports of many work orders. `last_id` is how far a job has come, `worker` whose steps count.
bulk_jobs = Table(
    "bulk_jobs",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("request_key", Text, unique=True),
    Column("filter", JSONB, nullable=False),
    Column("options", JSONB, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False, server_default=text("0")),
    Column("skipped", JSONB, nullable=False, server_default=_NO_SKIPPED),
    Column("last_id", Uuid),
    Column("worker", Uuid),
    Column("error", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("started_at", DateTime(timezone=True)),
    Column("seen_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("account", Text),
    CheckConstraint("kind IN ('rerun', 'cancel', 'export')", name="kind"),
    CheckConstraint("state IN ('waiting', 'running', 'finished', 'failed', 'cancelled')", name="state"),
    CheckConstraint("btrim(who) <> '' AND btrim(why) <> ''", name="reason"),
    CheckConstraint("state = 'waiting' OR (state = 'failed') = (error IS NOT NULL)", name="error"),
)

# Apart from work orders and dataclips: the ingest pays nothing for these indexes, which are filled behind it.
search_words = Table(
    "search_words",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("trigger_id", Integer, nullable=False),
    Column("workflow_id", Integer, nullable=False),
    Column("words", TSVECTOR, nullable=False),
    Index("search_words_trigger_idx", "trigger_id", "id"),
    Index("search_words_workflow_idx", "workflow_id", "id"),
    Index(
        "search_words_words_idx",
        "words",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "on", "gin_pending_list_limit": 4096},
    ),
)

history_marks = Table(
    "history_marks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("id", Uuid, nullable=False),
    Column("moved_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

state_counts = Table(
    "state_counts",
    metadata,
    Column("trigger_id", Integer, primary_key=True, autoincrement=False),
    Column("workflow_id", Integer, primary_key=True, autoincrement=False),
    Column("state", work_order_state, primary_key=True),
    Column("work_orders", BigInteger, nullable=False),
    Column("counted_at", DateTime(timezone=True), nullable=False),
    Column("seconds", Float, nullable=False),
)

# Half-open ranges of positions whose work orders retention deleted; ranges of a stream neither touch nor overlap.
deleted_positions = Table(
    "deleted_positions",
    metadata,
    Column("stream_id", Integer, ForeignKey(source_streams.c.id), primary_key=True, autoincrement=False),
    Column("from_position", BigInteger, primary_key=True, autoincrement=False),
    Column("to_position", BigInteger, nullable=False),
    # Fewer than positions where the gaps between them are known to be empty.
    Column("work_orders", BigInteger, nullable=False),
    CheckConstraint("from_position < to_position", name="range"),
    CheckConstraint("work_orders > 0 AND work_orders <= to_position - from_position", name="work_orders"),
)

# Half-open ranges with gaps of which the source has seen that so many events are in them and all had a work order.
whole_ranges = Table(
    "whole_ranges",
    metadata,
    Column("stream_id", Integer, ForeignKey(source_streams.c.id), primary_key=True, autoincrement=False),
    Column("from_position", BigInteger, primary_key=True, autoincrement=False),
    Column("to_position", BigInteger, primary_key=True, autoincrement=False),
    Column("work_orders", BigInteger, nullable=False),
    CheckConstraint("from_position < to_position", name="range"),
)

Index(
    "work_orders_few_idx",
    work_orders.c.state,
    work_orders.c.id,
    postgresql_where=text("state NOT IN ('pending', 'success', 'rejected')"),
)
