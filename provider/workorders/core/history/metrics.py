"""Metrics of work orders and runs. No query reads more than a bounded number of rows, however many there are."""

from typing import Final

from workorders.core.metrics import load_readings

READINGS: Final = load_readings("workorders.core.history", "sql/metrics.sql", blocks_from="sql/workload.sql")
