"""The jars of Kafka Connect and of Debezium's sink are pinned."""

from benchmarks import connect_jars
from local_stack import jars

LOCKED = jars.parse_lock(connect_jars.LOCK_FILE.read_text())


def test_the_lock_names_all_jars_that_the_resolver_starts_from() -> None:
    assert set(connect_jars.ROOTS) <= {jar.coordinate for jar in LOCKED}


def test_each_jar_is_locked_at_one_version() -> None:
    names = [jar.coordinate.rsplit(":", 1)[0] for jar in LOCKED]
    assert len(names) == len(set(names))


def test_the_local_stack_needs_none_of_these_jars() -> None:
    assert {jar.group for jar in LOCKED}.isdisjoint({*jars.RESOLVED, *jars.EXPLICIT})
