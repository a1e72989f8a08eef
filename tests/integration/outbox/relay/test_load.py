"""Writers and relays at work while something goes wrong: nothing lost, nothing twice, keys in their order."""

from functools import partial

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.outbox_load import Load
from support.topics import Topics
from workorders.outbox import admin
from workorders.outbox.exceptions import OutboxDecisionError

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=200)


@pytest.fixture
def load(outbox: Outbox, topics: Topics, name: str) -> Load:
    return Load(outbox, [topics.create(f"{name}-{number}", partitions=2) for number in range(2)])


def is_reset(outbox: Outbox) -> bool:
    """Reset the identity in a moment in which no relay has a lease."""
    with outbox.connect() as connection:
        try:
            return admin.reset_identity(connection) == []
        except OutboxDecisionError:
            return False


def test_two_relays_that_take_shards_from_each_other(outbox: Outbox, load: Load) -> None:
    """Leases end early, so that both relays work on one shard and fence each other again and again."""
    with load.running(relays=2):
        for _ in range(8):
            load.until_written(60)
            outbox.leases_run_out()
    outbox.relay()
    load.assert_right()


def test_the_number_of_shards_changes_while_writers_continue(outbox: Outbox, load: Load) -> None:
    with load.running(relays=2):
        for shards in (4, 2, 3, 1):
            load.until_written(150)
            load.pause_relays()
            eventually(partial(is_reset, outbox), seconds=60, what="The end of the relays")
            load.unpause_relays(shards=shards)
        load.until_written(150)
    outbox.relay()
    load.assert_right()


@pytest.mark.parametrize("server", ["kafka", "postgres"])
def test_a_server_dies_and_comes_back(stack: LocalStack, outbox: Outbox, load: Load, server: str) -> None:
    killed = getattr(stack, server)
    with load.running(relays=1):
        load.until_written(150)
        try:
            killed.kill()
            if server == "kafka":
                load.until_written(150)
        finally:
            killed.start()
        load.until_written(150)
    outbox.leases_run_out()
    outbox.relay()
    load.assert_right()
