"""One Kafka client a cluster for all triggers of a triggerer.

A hundred idle listeners live in one event loop. With clients of their own they would hold a hundred connections and
as many background threads; shared, they cost next to nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

from workorders.airflow.triggers.shared_connection import key_of
from workorders.kafka.client.admin import Cluster
from workorders.kafka.client.settings import client_settings

_clusters: dict[str, Cluster] = {}


def shared_cluster(settings: Mapping[str, Any]) -> Cluster:
    """Return the process's client of the cluster with these librdkafka settings."""
    key = key_of(json.dumps(settings, sort_keys=True))
    if key not in _clusters:
        _clusters[key] = Cluster(client_settings(settings))
    return _clusters[key]
