"""Which package imports which: each trigger type is a package, and what is common to all of them imports none."""

import re
from configparser import ConfigParser

import pytest

from local_stack.stack import CHECKOUT
from support.sources import imports, modules, names, queries, texts
from workorders.core.definitions.trigger import trigger_types

TYPES = sorted(trigger_types())

TOUCHED = {
    "cron": {"setup.cfg"},
    "manual": {"setup.cfg"},
    # Its commands.
    "webhook": {"setup.cfg", "cli/webhooks.py"},
    "kafka": {
        "setup.cfg",
        # The audit, which compares the ledger with work orders and with the cluster.
        "audit/audit.py",
        "audit/partitions.py",
        "audit/rereading.py",
        "audit/stored.py",
        # Its commands, and where they find the cluster.
        "cli/batches.py",
        "cli/connections.py",
        # Dag files, which Airflow reads. To ask entry points for them would delay the start of each task.
        "cli/init.py",
        "cli/start.py",
        "cli/spark.py",
        "cli/resolve.py",
        "cli/status.py",
        # The colors of a partition's states.
        "pages/rendering.py",
        # The batch that created a work order.
        "cli/work_orders.py",
        # The relay, which sends by the client of kafka/.
        "outbox/relay/checkpoints.py",
        "outbox/relay/definition.py",
        "outbox/relay/producer.py",
        "outbox/relay/relay.py",
        "outbox/relay/shard.py",
        # Its pages, the connections by which they ask the cluster, and its part of the overview.
        "pages/airflow.py",
        "pages/states.py",
        "pages/kafka_trigger.py",
        "pages/overview.py",
        "pages/resolve.py",
        "pages/work_order.py",
    },
}
"""Every file outside its package that a trigger type had to touch."""

KAFKA_WORDS = re.compile(
    r"kafka|confluent|librdkafka|consumer|broker|topic|\boffsets?\b|_offset|offset_", re.IGNORECASE
)
OUTSIDE_OF_KAFKA = {
    # Names where messages go, and takes them no further than into a table; the relay sends them.
    "outbox/": re.compile("kafka|topic", re.IGNORECASE),
    "outbox/relay/": KAFKA_WORDS,
    # What Kafka's room touched, as above; and how its statuses are printed.
    "airflow/provider_info.py": KAFKA_WORDS,
    "audit/": KAFKA_WORDS,
    "cli/": KAFKA_WORDS,
    # As the command line.
    "pages/": KAFKA_WORDS,
    # What is wrong, in the words of the statuses.
    "monitoring/problems.py": re.compile("topic|offsets"),
    # The rights to the tables of all packages, in one place.
    "core/sql/schema.sql": re.compile("kafka_ledger|kafka_decisions"),
    # A time zone.
    "cron/definition.py": re.compile("a time with its UTC offset"),
}
"""Where a word of Kafka's is allowed, and which."""


def room(path: str) -> str:
    return path.split("/", maxsplit=1)[0]


@pytest.mark.parametrize("type_", TYPES)
def test_a_type_touched_these_files_and_no_other(type_: str) -> None:
    package = f"workorders.{type_}"
    touched = {
        path
        for path, module in modules()
        if room(path) != type_
        and any(f"{found}.".startswith(f"{package}.") for found in [*imports(module), *texts(module)])
    }
    setup = ConfigParser()
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    announced = [line for line in setup["options.entry_points"].values() if f"{package}." in line]
    assert announced
    assert touched | {"setup.cfg"} == TOUCHED[type_]


def test_nothing_outside_of_a_types_room_names_a_type() -> None:
    """Who cannot name a type cannot branch on it."""
    by_text = {
        (path, text) for path, module in modules() if room(path) not in TYPES for text in texts(module) if text in TYPES
    }
    by_query = {
        (path, type_) for path, sql in queries() for type_ in TYPES if room(path) != type_ and f"'{type_}'" in sql
    }
    # OpenTelemetry's name of the system to which the relay sends.
    assert by_text | by_query == {("outbox/relay/shard.py", "kafka")}


def test_a_types_room_names_no_other_type() -> None:
    named = {
        (path, text)
        for path, module in modules()
        if room(path) in TYPES
        for text in texts(module)
        if text in TYPES and text != room(path)
    }
    assert named == set()


def test_nothing_outside_of_kafkas_room_knows_a_word_of_kafka() -> None:
    found = {
        (path, word) for path, module in modules() for word in [*names(module), *texts(module), *imports(module)]
    } | {(path, word) for path, sql in queries() for word in re.findall(r"\w+", sql)}
    assert {
        (path, word)
        for path, word in found
        if room(path) != "kafka" and KAFKA_WORDS.search(word) and not _is_allowed(path, word)
    } == set()


def _is_allowed(path: str, word: str) -> bool:
    # A word of SQL's own.
    return word == "OFFSET" or any(
        path.startswith(place) and words.search(word) for place, words in OUTSIDE_OF_KAFKA.items()
    )
