"""`python -m compare.dbos_app SERVERS TOPIC GROUP TABLE WAY`: a workflow of DBOS for each message."""

import os
import sys
import threading
from collections.abc import Callable

import sqlalchemy
from dbos import DBOS, KafkaMessage, SQLAlchemyDatasource  # type: ignore[import-not-found]

from compare.function import as_object

_COLUMNS = ("topic", "partition", "offset", "key", "body")
Insert = Callable[[str, int, int, str, str], None]


def main(servers: str, topic: str, group: str, table: str, way: str) -> None:
    """Consume until the process is ended."""
    DBOS(
        config={
            "name": "compare",
            "system_database_url": os.environ["DBOS_DATABASE_URL"],
            "run_admin_server": False,
            # Workflows of a partition run one after the other, each after a look; 1 s by default.
            "kafka_queue_polling_interval_sec": 0.02,
        }
    )
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        # A consumer that was killed keeps its partitions for so long; 45 s by default.
        "session.timeout.ms": 10_000,
    }
    insert, ordering = _WAYS[way]
    insert_row = insert(table)

    @DBOS.kafka_consumer(settings, [topic], ordering=ordering)  # type: ignore[untyped-decorator]
    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def register(message: KafkaMessage) -> None:
        text = as_object(message.value)
        insert_row(message.topic, message.partition, message.offset, message.key.decode(), text)

    DBOS.launch()
    threading.Event().wait()


def _in_step(table: str) -> Insert:
    engine = sqlalchemy.create_engine(_url())

    @DBOS.step(retries_allowed=True, max_attempts=6)  # type: ignore[untyped-decorator]
    def insert(*values: object) -> None:
        with engine.begin() as connection:
            connection.execute(_statement(table), dict(zip(_COLUMNS, values, strict=True)))

    return insert  # type: ignore[no-any-return]


def _in_transaction(table: str) -> Insert:
    datasource = SQLAlchemyDatasource.create(_url())

    @datasource.transaction(isolation_level="READ COMMITTED")  # type: ignore[untyped-decorator]
    def insert(*values: object) -> None:
        datasource.sql_session().execute(_statement(table), dict(zip(_COLUMNS, values, strict=True)))

    return insert  # type: ignore[no-any-return]


def _url() -> str:
    return os.environ["EFFECTS_URL"].replace("postgresql:", "postgresql+psycopg:")


def _statement(table: str) -> sqlalchemy.TextClause:
    values = ", ".join(f":{name}" for name in _COLUMNS)
    return sqlalchemy.text(f'INSERT INTO {table} (topic, partition, "offset", key, body) VALUES ({values})')


_WAYS = {"step": (_in_step, "none"), "transaction": (_in_transaction, "partition")}


if __name__ == "__main__":
    main(*sys.argv[1:])
