"""How long one message takes to become a work order through an idle Airflow."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from benchmarks import messages, trigger_files
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from support.flow import Flow
from support.observed_trigger import ObservedTrigger, Place

_NAME = "latency"
_SECONDS = 300.0


def seconds_to_work_order(count: int, connection: str, say: Callable[[str], None]) -> list[float]:
    """Produce single messages, each when Airflow is idle again; return the seconds from its delivery to its work order.

    The stack is one of its own: Airflow with the listener and ingest Dag of one trigger, and a Spark Connect server if
    the Spark connection is that one's.

    Raises:
        RuntimeError: a message did not become a work order in time.
    """
    with _flow(connection, say) as (stack, flow):
        return [_one(stack, flow, number) for number in range(count)]


@contextmanager
def _flow(connection: str, say: Callable[[str], None]) -> Iterator[tuple[LocalStack, Flow]]:
    with tempfile.TemporaryDirectory(prefix="triggers-") as folder:
        topic = trigger_files.write(Path(folder), _NAME, connection=connection)
        with LocalStack(
            airflow=True,
            spark_connect=connection == trigger_files.ON_SERVER,
            triggers_folder=Path(folder),
            name="bench-latency",
            say=say,
        ) as stack:
            trigger = ObservedTrigger(
                _NAME, topic, kafka_settings=stack.kafka_settings, database_url=stack.database_url
            )
            messages.create_topics(stack.bootstrap_servers, [topic], 1)
            api = AirflowApi(stack.airflow_url)
            yield stack, Flow(api, trigger)
            api.close()


def _one(stack: LocalStack, flow: Flow, number: int) -> float:
    flow.until_waiting()
    (place,) = flow.trigger.produce([(0, messages.value(number))])
    begun = time.monotonic()
    if not wait_until(lambda: _is_there(stack.database_url, place), seconds=_SECONDS):
        raise RuntimeError(f"Message {place.offset} of {flow.trigger.topic} was no work order after {_SECONDS:g} s.")
    seconds = time.monotonic() - begun
    flow.until_settled()
    return seconds


def _is_there(url: str, place: Place) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM workorders.work_orders WHERE position = %s)", (place.offset,)
        ).fetchone()
    return bool(row and row[0])
