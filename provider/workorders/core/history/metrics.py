"""Metrics of work orders and runs. No query reads more than a bounded number of rows, however many there are."""

from typing import Final

from workorders.core.metrics import Metric, Reading
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/metrics.sql", blocks_from="sql/workload.sql")

READINGS: Final = (
    Reading(
        ("trigger", "workflow", "state"),
        (
            Metric(
                "workorders.work_orders",
                "gauge",
                "{work_order}",
                "Work orders by state, as they were last counted; the Dag `workorders_maintenance` counts them.",
            ),
        ),
        _QUERIES["work_orders"],
    ),
    Reading(
        (),
        (Metric("workorders.work_orders.count_age", "gauge", "s", "Time since work orders were counted by state."),),
        _QUERIES["count_age"],
    ),
    Reading(
        ("workflow",),
        (
            Metric(
                "workorders.runs.running",
                "gauge",
                "{run}",
                "Runs that a worker with a heartbeat has claimed and not finished.",
            ),
            Metric(
                "workorders.runs.waiting",
                "gauge",
                "{work_order}",
                "Work orders that are pending or requeued; counted up to 100,000.",
            ),
            Metric(
                "workorders.runs.oldest_wait",
                "gauge",
                "s",
                "Time for which the first work order has waited that a worker could claim.",
            ),
        ),
        _QUERIES["runs"],
    ),
    Reading(
        ("workflow", "state"),
        (
            Metric(
                "workorders.runs.recent",
                "gauge",
                "{run}",
                "Runs of the last 15 minutes by their state, among the newest 2,000 of all workflows.",
                absent_is_zero=True,
            ),
        ),
        _QUERIES["recent_states"],
    ),
    Reading(
        ("workflow", "percentile"),
        (
            Metric(
                "workorders.run.duration", "gauge", "s", "Duration of these runs, from start to end, by percentile."
            ),
            Metric(
                "workorders.run.wait",
                "gauge",
                "s",
                "Time that these runs waited for a worker, by percentile. A retry waits from when it is due.",
            ),
        ),
        _QUERIES["recent_durations"],
    ),
    Reading(
        ("trigger",),
        (
            Metric(
                "workorders.sequences.parked",
                "gauge",
                "{work_order}",
                "Work orders that wait for a missing event of their sequence.",
                absent_is_zero=True,
            ),
        ),
        _QUERIES["parked"],
    ),
    Reading(
        (),
        (
            Metric("workorders.retention.run_age", "gauge", "s", "Time since retention last ended without a failure."),
            Metric("workorders.retention.oldest_age", "gauge", "s", "Age of the oldest work order that is stored."),
        ),
        _QUERIES["retention"],
    ),
)
