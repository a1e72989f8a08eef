"""Metrics of the outbox. No query reads every message that waits."""

from typing import Final

from workorders.core.metrics import load_readings

READINGS: Final = load_readings("workorders.outbox", "sql/metrics.sql", blocks_from="store/sql/backlog.sql")
