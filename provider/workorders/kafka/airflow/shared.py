"""One Kafka client a cluster and one Postgres connection a database for all triggers of a triggerer.

A hundred idle listeners live in one event loop. With clients of their own they would hold a hundred connections and
as many background threads; shared, they cost next to nothing.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import psycopg

from workorders.core.database import PREPARE_NOTHING, connection_string
from workorders.kafka.cluster import Cluster
from workorders.kafka.settings import client_settings

_clusters: dict[str, Cluster] = {}
_databases: dict[str, "SharedDatabase"] = {}


def shared_cluster(settings: Mapping[str, Any]) -> Cluster:
    """Return the process's client of the cluster with these librdkafka settings."""
    key = _key(json.dumps(settings, sort_keys=True))
    if key not in _clusters:
        _clusters[key] = Cluster(client_settings(settings))
    return _clusters[key]


def shared_database(database_url: str) -> "SharedDatabase":
    """Return the process's connection to a database."""
    key = _key(database_url)
    if key not in _databases:
        _databases[key] = SharedDatabase(database_url)
    return _databases[key]


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class SharedDatabase:
    """A connection that many coroutines use by turns, opened when first needed and again when it broke."""

    def __init__(self, database_url: str) -> None:
        self._url = connection_string(database_url, "workorders triggerer")
        self._turn = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def fetch(self, query: Any, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one query and return its rows.

        Raises:
            psycopg.Error: the database failed; the next call connects anew.
        """
        async with self._turn:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await psycopg.AsyncConnection.connect(
                        self._url, autocommit=True, prepare_threshold=PREPARE_NOTHING
                    )
                cursor = await self._connection.execute(query, arguments)
                return await cursor.fetchall()
            except psycopg.OperationalError:
                await self._drop()
                raise

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
