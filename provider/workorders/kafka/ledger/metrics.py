"""Metrics of the ingest, from the ledger and from what the listeners have seen of Kafka."""

from typing import Final

from workorders.core.metrics import load_readings

READINGS: Final = load_readings("workorders.kafka.ledger", "sql/metrics.sql")
