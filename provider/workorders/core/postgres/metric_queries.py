"""Metrics, from the comments of the queries that read them."""

import re

from workorders.core.metrics import Metric, Reading
from workorders.core.postgres.named_queries import load_queries

_LABELS = re.compile(r"^-- labels: (.+)$", re.MULTILINE)
_METRIC = re.compile(r"^-- (gauge|counter): (\S+), (\S+?)(, absent is 0)?\n((?:--   .*\n)+)", re.MULTILINE)


def load_readings(package: str, file: str, *, blocks_from: str | None = None) -> tuple[Reading, ...]:
    """Return a reading for each query of `file` in `package`, in their order.

    A query begins with its labels, and with a line for each metric and another one for its meaning:

        -- labels: topic, kind
        -- gauge: workorders.outbox.holds, {hold}, absent is 0
        --   Holds of a topic, by kind: topic, key, or message.
    """
    readings = []
    for query in load_queries(package, file, blocks_from=blocks_from).values():
        labels = _LABELS.search(query)
        metrics = tuple(
            Metric(name, kind, unit, meaning.replace("\n--  ", "").removeprefix("--   ").strip(), bool(absent))
            for kind, name, unit, absent, meaning in _METRIC.findall(query)
        )
        if not metrics:
            raise ValueError(f"{package}/{file} has a query without a metric:\n{query}")
        readings.append(Reading(tuple(labels[1].split(", ")) if labels else (), metrics, query))
    return tuple(readings)
