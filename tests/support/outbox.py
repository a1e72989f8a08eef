"""A separate outbox for a test: another database of the stack, and the oracle of what must be in Kafka."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.databases import own_database
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.secrets import JobSecrets
from workorders.outbox import OutboxMessage, admin, enqueue
from workorders.outbox.admin import Hold
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.relay import run_relay
from workorders.outbox.relay.shard import RelayResult


@dataclass(frozen=True)
class Outbox:
    """A database with an outbox that no other test has, and a cluster."""

    database_url: str
    kafka: Mapping[str, Any]
    definition: RelayDefinition

    @property
    def connections(self) -> JobSecrets:
        """What a relay needs."""
        return JobSecrets(self.database_url, self.kafka)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection of a program."""
        with connect(self.database_url, application_name="test writer") as connection:
            yield connection

    def write(self, *messages: OutboxMessage) -> None:
        """Commit messages in their own transaction."""
        with self.connect() as connection:
            enqueue(connection, messages)

    def relay(self, **changes: Any) -> RelayResult:
        """Relay the waiting messages."""
        return self._relay_shards(changes)

    def relay_until(self, stopped: threading.Event, **changes: Any) -> RelayResult:
        """Relay until told to end."""
        return self._relay_shards({**changes, "linger": 3600.0}, stopped=stopped.is_set)

    def _relay_shards(self, changes: Mapping[str, Any], **options: Any) -> RelayResult:
        """Relay every shard, all at the same time, as their Dags do."""
        definition = self.definition.model_copy(update=changes)

        def relay(shard: int) -> RelayResult:
            return run_relay(self.connections, definition, shard=shard, **options)

        with ThreadPoolExecutor(definition.shards) as pool:
            results = list(pool.map(relay, range(definition.shards)))
        return RelayResult(
            sum(result.messages for result in results), [failure for result in results for failure in result.failures]
        )

    def ask(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with self.connect() as connection:
            cursor = connection.execute(query.encode(), arguments)
            return cursor.fetchall() if cursor.description else []

    def leases_run_out(self) -> None:
        """Do what a quarter of a minute does, by the database's clock."""
        with self.connect() as connection:
            # A relay that was stopped during a transaction holds its shard's row until Postgres ends that.
            connection.execute("SET LOCAL lock_timeout = '3min'")
            connection.execute(
                "UPDATE workorders.outbox_shards SET leased_until = clock_timestamp() - interval '1 second'"
            )

    def holds(self) -> list[Hold]:
        """Return what is held."""
        with self.connect() as connection:
            return list(admin.holds(connection))

    def holds_come_due(self) -> None:
        """Do what the time until their next tries does."""
        self.ask("UPDATE workorders.outbox_holds SET next_try_at = now()")

    def waiting(self) -> int:
        """Return how many messages are in the table."""
        return int(self.ask("SELECT count(*) FROM workorders.outbox_messages WHERE hold_id IS NULL")[0][0])

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values that a reader of committed messages sees."""
        return [message.value() for message in consumed(self.kafka, topic)]


def new_outbox(stack: LocalStack, **definition: Any) -> Outbox:
    """Make a database with an outbox."""
    url = own_database(stack, "outbox")
    with connect(url, application_name="test writer") as connection:
        connection.execute("UPDATE workorders.outbox_identity SET outbox_id = gen_random_uuid()")
    fields = {"checkpoint_topic": f"outbox_{uuid4().hex[:12]}-checkpoints", "linger": 0, **definition}
    return Outbox(url, stack.kafka_settings, RelayDefinition.model_validate(fields))


def assert_exactly_once(found: Sequence[bytes | None], expected: Sequence[bytes]) -> None:
    """Every one of the expected values is there once, and nothing else is; values are named in a failure."""
    missing, strange = set(expected) - set(found), set(found) - set(expected)
    assert not missing, f"{len(missing)} are missing, such as {sorted(missing)[:5]}"
    assert not strange, f"{len(strange)} are strange, such as {list(strange)[:5]}"
    twice = len(found) - len(set(found))
    assert not twice, f"{twice} came twice"
