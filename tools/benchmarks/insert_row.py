"""The function that `steady` times: it inserts one row per message, here and in DBOS's environment alike.

It imports nothing that DBOS's environment lacks.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import psycopg

if TYPE_CHECKING:
    from workorders.core.worker.context import Context

CREATE_TABLE: Final = """
CREATE TABLE inserted_rows (
    topic text, "offset" bigint, produced_at timestamptz, inserted_at timestamptz DEFAULT clock_timestamp()
)
"""
_INSERT: Final = 'INSERT INTO inserted_rows (topic, "offset", produced_at) VALUES (%s, %s, to_timestamp(%s / 1000.0))'


def insert(topic: str, offset: int, timestamp_ms: int) -> None:
    """Insert the row of one message in its own transaction."""
    _connection().execute(_INSERT, (topic, offset, timestamp_ms))


def run(_body: Any, context: "Context") -> None:
    """Insert the row of a work order's message."""
    request: Mapping[str, Any] = context.request
    insert(request["topic"], request["offset"], request["timestamp"])


@cache
def _connection() -> psycopg.Connection:
    return psycopg.connect(os.environ["WORKORDERS_DATABASE_URL"], autocommit=True)
