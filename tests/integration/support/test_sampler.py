"""The sampler sees what it is there for: all is well first, then one thing is broken by hand."""

from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.in_process_trigger import InProcessTrigger
from support.observed_trigger import ObservedTrigger
from support.sampler import Sampler, commits_in_order
from workorders.core.postgres.connection import Connection

pytestmark = pytest.mark.integration

SECONDS = 30.0


@pytest.fixture
def observed(stack: LocalStack, idle_trigger: InProcessTrigger, name: str) -> ObservedTrigger:
    """The trigger that has ingested ten messages."""
    return ObservedTrigger.on_stack(stack, name, name)


@pytest.fixture
def sampler(observed: ObservedTrigger) -> Iterator[Sampler]:
    """A sampler that has seen all three, and nothing wrong."""
    with Sampler(observed, gapless=True) as sampler:
        eventually(lambda: sampler.samples, seconds=SECONDS, what="a sample")
        assert sampler.contradictions == []
        yield sampler
        assert sampler.failure is None


def move(connection: Connection, name: str, next_offset: int) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = %s WHERE topic = %s", (next_offset, name))
    connection.commit()


@pytest.mark.parametrize(
    ("next_offset", "words"), [(11, "10 work orders lie before 11"), (9, "1 work orders lie ahead")]
)
def test_a_ledger_that_is_not_where_the_work_orders_end_is_seen(
    connection: Connection, sampler: Sampler, name: str, *, next_offset: int, words: str
) -> None:
    move(connection, name, next_offset)
    eventually(lambda: sampler.contradictions, seconds=SECONDS, what="a contradiction")
    assert words in sampler.contradictions[0]


def test_a_broken_order_fails_the_test_that_it_was_broken_in(
    connection: Connection, observed: ObservedTrigger, name: str
) -> None:
    move(connection, name, 11)
    with pytest.raises(AssertionError, match="10 work orders lie before 11"), commits_in_order(observed) as sampler:
        eventually(lambda: sampler.samples, seconds=SECONDS, what="a sample")
