"""`python -m compare.dbos_app SERVERS TOPIC GROUP TABLE WAY`: a workflow of DBOS for each message."""

import os
import sys
import threading
from collections.abc import Callable

import psycopg
import sqlalchemy
from dbos import DBOS, KafkaMessage, SQLAlchemyDatasource  # type: ignore[import-not-found]

from compare.function import as_object

_COLUMNS = '(topic, partition, "offset", key, body)'
Insert = Callable[[str, int, int, str, str], None]


def main(servers: str, topic: str, group: str, table: str, way: str) -> None:
    """Consume until the process is ended."""
    DBOS(config={"name": "compare", "system_database_url": os.environ["DBOS_DATABASE_URL"], "run_admin_server": False})
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
    local = threading.local()

    def connection() -> psycopg.Connection:
        if getattr(local, "connection", None) is None or local.connection.closed:
            local.connection = psycopg.connect(os.environ["EFFECTS_URL"], autocommit=True)
        found: psycopg.Connection = local.connection
        return found

    @DBOS.step(retries_allowed=True, max_attempts=5)  # type: ignore[untyped-decorator]
    def insert(*values: object) -> None:
        connection().execute(f"INSERT INTO {table} {_COLUMNS} VALUES (%s, %s, %s, %s, %s)".encode(), values)

    return insert  # type: ignore[no-any-return]


def _in_transaction(table: str) -> Insert:
    datasource = SQLAlchemyDatasource.create(os.environ["EFFECTS_URL"].replace("postgresql:", "postgresql+psycopg:"))
    statement = sqlalchemy.text(f"INSERT INTO {table} {_COLUMNS} VALUES (:topic, :partition, :offset, :key, :body)")

    @datasource.transaction(isolation_level="READ COMMITTED")  # type: ignore[untyped-decorator]
    def insert(topic: str, partition: int, offset: int, key: str, body: str) -> None:
        values = {"topic": topic, "partition": partition, "offset": offset, "key": key, "body": body}
        datasource.sql_session().execute(statement, values)

    return insert  # type: ignore[no-any-return]


_WAYS = {"step": (_in_step, "none"), "transaction": (_in_transaction, "partition")}


if __name__ == "__main__":
    main(*sys.argv[1:])
