"""The report of the last audit, which the pages show: one row, which the next audit replaces."""

from datetime import datetime

import orjson

from workorders.audit.findings import AuditReport, Check, Finding
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.audit", "sql/last_audit.sql")


def write(connection: Connection, report: AuditReport) -> None:
    """Store a report instead of the last one, and commit."""
    with connection.transaction():
        connection.execute(_QUERIES["write"], {"report": orjson.dumps(report).decode()})


def read(connection: Connection) -> AuditReport | None:
    """Return the last report; None before the first audit."""
    row = connection.execute(_QUERIES["read"]).fetchone()
    if row is None:
        return None
    fields = orjson.loads(row[0])
    fields["ended_at"] = datetime.fromisoformat(fields["ended_at"])
    fields["findings"] = tuple(Finding(**{**found, "check": Check(found["check"])}) for found in fields["findings"])
    fields["problems"] = tuple(fields["problems"])
    return AuditReport(**fields)
