"""All messages of one topic into Postgres: on a warm Spark Connect server, and by peers into one plain table.

A run counts only after each of its rows was compared with its message.
"""

from collections.abc import Callable
from typing import Final

from benchmarks import airflow_consume, backlog, contents, debezium_sink, messages
from benchmarks.backlog import PARTITIONS, Ingested
from benchmarks.create_for import empty_tables
from local_stack.stack import LocalStack
from workorders.core.postgres.connection import connect

_WARM_UP_MESSAGES: Final = 10_000


def prepare(stack: LocalStack, topic: str, count: int) -> None:
    """Produce the messages, store what rows are expected, and start the server with a first small batch."""
    warm_up = f"{topic}-warm-up"
    messages.create_topics(stack.bootstrap_servers, [topic, warm_up], PARTITIONS)
    messages.produce(stack.bootstrap_servers, topic, PARTITIONS, count)
    messages.produce(stack.bootstrap_servers, warm_up, PARTITIONS, _WARM_UP_MESSAGES)
    contents.expect(stack.database_url, contents.spread(topic, PARTITIONS, count))
    stack.start_spark_connect()
    backlog.ingest_on_server(stack, warm_up, _WARM_UP_MESSAGES, warm_up)


def _on_server(stack: LocalStack, topic: str, count: int, name: str) -> Ingested:
    with connect(stack.database_url) as connection:
        empty_tables(connection)
    run = backlog.ingest_on_server(stack, topic, count, name)
    contents.require_right(stack.database_url, contents.WORK_ORDERS, count)
    return run


def _debezium(stack: LocalStack, topic: str, count: int, _name: str) -> Ingested:
    run = debezium_sink.sink(stack, topic, count)
    contents.require_right(stack.database_url, contents.PLAIN_ROWS, count)
    return run


def _operator(stack: LocalStack, topic: str, count: int, name: str) -> Ingested:
    run = airflow_consume.consume(stack, topic, count, name)
    contents.require_right(stack.database_url, contents.PLAIN_ROWS, count)
    return run


OURS: Final = "work orders, warm server"
DEBEZIUM: Final = "Debezium's JDBC sink"
OPERATOR: Final = "Airflow's operator, executemany"
WAYS: Final[dict[str, Callable[[LocalStack, str, int, str], Ingested]]] = {
    OURS: _on_server,
    DEBEZIUM: _debezium,
    OPERATOR: _operator,
}
"""What reads all messages of a topic, under a name that was not used before."""
