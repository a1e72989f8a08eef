"""Metrics of the ingest, from the ledger and from what the listeners have seen of Kafka."""

from typing import Final

from workorders.core.metrics import Metric, Reading
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.kafka.ledger", "sql/metrics.sql")

READINGS: Final = (
    Reading(
        ("trigger", "topic", "partition"),
        (
            Metric(
                "workorders.ingest.lag",
                "gauge",
                "{message}",
                "Offsets without a work order, up to the last stable one; some hold no message. There is no value if "
                "the listener has not looked for two minutes.",
            ),
            Metric(
                "workorders.ingest.oldest_age",
                "gauge",
                "s",
                "Maximum age of the oldest message without a work order, to a minute; 0 if there is none.",
            ),
            Metric(
                "workorders.ingest.no_progress_age",
                "gauge",
                "s",
                "Time for which messages wait and none has become a work order, to a minute; 0 if none waits.",
            ),
        ),
        _QUERIES["partitions"],
    ),
    Reading(
        ("trigger",),
        (
            Metric(
                "workorders.ingest.poll_age",
                "gauge",
                "s",
                "Time since the listener last asked Kafka how far the topics go. It grows while the Dag is paused.",
            ),
            Metric("workorders.ingest.stalled", "gauge", "{partition}", "Stalled partitions."),
        ),
        _QUERIES["triggers"],
    ),
    Reading(
        ("trigger", "topic", "partition"),
        (
            Metric(
                "workorders.ingest.stall_age", "gauge", "s", "Time since the partition stalled; 0 if it is not stalled."
            ),
        ),
        _QUERIES["stalls"],
    ),
    Reading(
        ("trigger", "outcome"),
        (
            Metric(
                "workorders.ingest.messages",
                "counter",
                "{message}",
                "Messages that were read: created, rejected, existing (there was a work order already), or filtered.",
            ),
        ),
        _QUERIES["messages"],
    ),
    Reading(
        ("trigger", "percentile"),
        (
            Metric(
                "workorders.ingest.range.duration",
                "gauge",
                "s",
                "Time from plan to end of the newest ranges of the last 15 minutes, at most 50, by percentile.",
            ),
        ),
        _QUERIES["range_durations"],
    ),
)
