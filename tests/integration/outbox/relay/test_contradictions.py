"""A shard that is stalled because Kafka and the database contradict each other: people see it, and decide."""

import json

import pytest

from local_stack.stack import LocalStack
from support.command import Command
from support.outbox import Outbox, new_outbox
from support.stopped_relay import relay_that, write
from support.topics import Topics
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.outbox import OutboxMessage
from workorders.outbox.exceptions import OutboxContradictionError

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    made = new_outbox(stack, max_messages=50)
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", made.database_url)
    return made


@pytest.fixture
def workorders(outbox: Outbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def contradicted(outbox: Outbox, topics: Topics, name: str) -> list[bytes]:
    """What was written, of which a batch is in Kafka and one is claimed, where the database then forgot the first."""
    topics.create(name)
    expected = write(outbox, name)
    with relay_that("acknowledged", "SIGKILL", outbox) as process:
        process.wait(30)
    outbox.leases_run_out()
    outbox.ask("UPDATE workorders.outbox_shards SET checkpoint_batch = 0 WHERE shard = 0")
    with pytest.raises(OutboxContradictionError, match="release --shard 0"):
        outbox.relay()
    return expected


def error_of(workorders: Command) -> tuple[int, str | None]:
    shown = workorders("outbox", "status", "--json")
    return shown.code, json.loads(shown.out)["shards"][0]["last_error"]


def test_status_shows_a_contradiction_until_an_operator_has_decided(
    outbox: Outbox, workorders: Command, contradicted: list[bytes], name: str
) -> None:
    code, error = error_of(workorders)
    assert code == 1
    assert error is not None
    assert "Shard 0 of the outbox is stalled" in error
    assert "is stalled" in workorders("outbox", "status").out
    with pytest.raises(OutboxContradictionError):
        outbox.relay()
    assert error_of(workorders) == (1, error)
    assert workorders("outbox", "release", "--shard", "0", "--unsent", "--reason", "a test", "--yes").code == 0
    assert error_of(workorders) == (0, None)


def test_a_batch_released_as_unsent_is_sent_and_the_checkpoint_in_kafka_is_the_one_to_continue_from(
    outbox: Outbox, workorders: Command, contradicted: list[bytes], name: str
) -> None:
    before = len(outbox.values(name))
    assert 0 < before < len(contradicted)
    released = workorders("outbox", "release", "--shard", "0", "--unsent", "--reason", "a test", "--yes").out
    assert "messages of its open batch are sent by the next relay" in released
    outbox.relay()
    assert_whole_again(outbox, name, contradicted)


def test_a_batch_released_as_sent_is_deleted_and_all_behind_it_is_sent(
    outbox: Outbox, workorders: Command, contradicted: list[bytes], name: str
) -> None:
    claimed = outbox.ask(
        """
        SELECT message.value FROM workorders.outbox_claims AS claim JOIN workorders.outbox_messages AS message
            ON message.topic = claim.topic AND message.bucket = claim.bucket AND message.id = ANY (claim.ids)
        """
    )
    lost = {row[0] for row in claimed}
    assert lost
    assert (
        "were deleted as sent"
        in workorders("outbox", "release", "--shard", "0", "--sent", "--reason", "a test", "--yes").out
    )
    outbox.relay()
    assert_whole_again(outbox, name, [value for value in contradicted if value not in lost])


def test_a_database_that_was_restored_continues_with_numbers_behind_those_in_kafka(
    outbox: Outbox, workorders: Command, topics: Topics, name: str
) -> None:
    """A number that comes twice would let a checkpoint of the past speak for a batch of the present."""
    topics.create(name)
    write(outbox, name)
    outbox.relay()
    ((reached,),) = outbox.ask("SELECT checkpoint_batch FROM workorders.outbox_shards WHERE shard = 0")
    outbox.ask("UPDATE workorders.outbox_shards SET last_batch = 0, checkpoint_batch = 0 WHERE shard = 0")
    outbox.write(OutboxMessage(topic=name, key="k", value="after"))
    with pytest.raises(OutboxContradictionError):
        outbox.relay()
    assert workorders("outbox", "release", "--shard", "0", "--unsent", "--reason", "a test", "--yes").code == 0
    outbox.relay()
    assert outbox.values(name)[-1] == b"after"
    ((marked,),) = outbox.ask("SELECT checkpoint_batch FROM workorders.outbox_shards WHERE shard = 0")
    assert marked > reached


def assert_whole_again(outbox: Outbox, name: str, expected: list[bytes]) -> None:
    """All are there once, and relays know their position again."""
    found = [value or b"" for value in outbox.values(name)]
    assert sorted(found) == sorted(expected)
    ((marked, error),) = outbox.ask("SELECT checkpoint_batch, last_error FROM workorders.outbox_shards WHERE shard = 0")
    assert marked > 0
    assert error is None
    outbox.write(OutboxMessage(topic=name, key="more", value="more"))
    outbox.relay()
    assert outbox.values(name)[len(found) :] == [b"more"]


def test_a_shard_has_its_error_until_it_works(outbox: Outbox, workorders: Command, topics: Topics, name: str) -> None:
    with pytest.raises(KafkaUnavailableError, match="could not be described or created"):
        outbox.relay(checkpoint_topic="no.topic.of.that.name." * 12)
    code, error = error_of(workorders)
    assert code == 1
    assert error is not None
    assert "in which the outbox keeps its checkpoints" in error
    outbox.relay()
    assert error_of(workorders) == (0, None)
