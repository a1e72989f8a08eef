"""Metrics of the outbox. No query reads every message that waits."""

from typing import Final

from workorders.core.metrics import Metric, Reading
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox", "sql/metrics.sql", blocks_from="store/sql/backlog.sql")

READINGS: Final = (
    Reading(
        ("topic",),
        (
            Metric(
                "workorders.outbox.waiting",
                "gauge",
                "{message}",
                "Messages that wait for the relay; counted up to 10,000 for each of a topic's 16 groups of keys.",
            ),
            Metric("workorders.outbox.held", "gauge", "{message}", "Messages that were moved to a hold."),
            Metric(
                "workorders.outbox.delay",
                "gauge",
                "s",
                "Age of the oldest message that waits or is held; 0 if there is none.",
            ),
        ),
        _QUERIES["topics"],
    ),
    Reading(
        ("topic", "kind"),
        (
            Metric(
                "workorders.outbox.holds",
                "gauge",
                "{hold}",
                "Holds of a topic, by kind: topic, key, or message.",
                absent_is_zero=True,
            ),
        ),
        _QUERIES["holds"],
    ),
    Reading(
        ("topic", "outcome"),
        (
            Metric(
                "workorders.outbox.messages",
                "counter",
                "{message}",
                "Messages that were sent, compacted (a later one with the key was sent), or refused (failed).",
            ),
        ),
        _QUERIES["messages"],
    ),
    Reading(
        ("shard",),
        (
            Metric("workorders.outbox.shard.leased", "gauge", "1", "1 if a relay works on the shard, otherwise 0."),
            Metric("workorders.outbox.shard.failed", "gauge", "1", "1 if the shard's last relay failed, otherwise 0."),
        ),
        _QUERIES["shards"],
    ),
)
