"""Single messages, one after the other: how long an idle system needs for one, with both types of Spark connection."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from confluent_kafka import Producer

from demo.errors import DemoError
from demo.topic import Settings, Topic
from local_stack.stack import say
from local_stack.waiting import wait_until

_PATIENCE_SECONDS: Final = 300.0
_COUNT: Final = """
    SELECT count(*) FROM workorders.work_orders JOIN workorders.triggers ON triggers.id = trigger_id WHERE name = %s
"""
_FILE: Final = """\
name: {name}
type: kafka
workflow: single_messages
topics: [{name}]
spark_connection: {connection}
"""
WAYS: Final = {"single_submitted": "spark_default", "single_warm": "spark_connect_default"}
"""The triggers of single messages, and the Spark connection of each."""


@contextmanager
def triggers_folder(triggers: Path) -> Iterator[Path]:
    """Make a folder with these triggers and those of the single messages, which no workflow executes."""
    with TemporaryDirectory(prefix="workorders-triggers-") as folder:
        shutil.copytree(triggers, folder, dirs_exist_ok=True)
        for name, connection in WAYS.items():
            Path(folder, f"{name}.yaml").write_text(_FILE.format(name=name, connection=connection))
        yield Path(folder)


def create_topics(kafka_settings: Settings) -> None:
    """Create the topics of the single messages.

    Raises:
        KafkaException: the broker refuses them.
    """
    for name in WAYS:
        Topic(kafka_settings, name, name).create(1)


def show(kafka_settings: Settings, database_url: str, count: int) -> None:
    """Send `count` messages one by one, and print how long each way took.

    Raises:
        DemoError: a message did not become a work order.
    """
    say(f"\nNow {count} single messages for each way, while nothing else is done: seconds from produce to work order\n")
    for name, connection in WAYS.items():
        single = _Single(name, Producer(dict(kafka_settings)), database_url)
        seconds = [single.send(number) for number in range(count)]
        each = ", ".join(f"{one:.1f}" for one in seconds)
        what = "an application per batch" if connection == "spark_default" else "a Spark that is already running"
        say(f"spark_connection: {connection:22} median {median(seconds):4.1f}   of {each}   ({what})")


@dataclass(frozen=True, slots=True)
class _Single:
    trigger: str
    producer: Producer
    database_url: str

    def send(self, number: int) -> float:
        """Send one message; return the seconds until its work order can be read."""
        with psycopg.connect(self.database_url, autocommit=True, application_name="demo") as connection:

            def created() -> bool:
                return connection.execute(_COUNT, (self.trigger,)).fetchone() == (number + 1,)

            self.producer.produce(self.trigger, b'{"number": %d}' % number)
            self.producer.flush()
            begun = time.monotonic()
            if not wait_until(created, seconds=_PATIENCE_SECONDS):
                raise DemoError(
                    f"Message {number} of topic {self.trigger} became no work order within {_PATIENCE_SECONDS:g} s; "
                    f"`workorders status {self.trigger}` tells why."
                )
            return time.monotonic() - begun
