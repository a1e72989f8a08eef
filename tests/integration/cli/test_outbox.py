"""`workorders outbox` against real rows."""

import json

import pytest
import typer

from local_stack.stack import LocalStack
from support.command import Command
from support.outbox import Outbox, new_outbox
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    made = new_outbox(stack)
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", made.database_url)
    return made


@pytest.fixture
def workorders(outbox: Outbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


BECAUSE = ("--reason", "a test", "--yes")


def hold_a_topic(outbox: Outbox, name: str) -> None:
    outbox.write(OutboxMessage(topic=name, key="k", value="1"), OutboxMessage(topic=name, key="k", value="2"))
    outbox.ask("INSERT INTO workorders.outbox_holds (kind, topic, reason) VALUES ('topic', %s, 'no topic')", name)


def hold_a_key(outbox: Outbox, name: str) -> None:
    outbox.write(OutboxMessage(topic=name, key="k", value="1"))
    outbox.ask(
        """
        WITH hold AS (
            INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason)
            SELECT 'key', topic, bucket, key, 'too large' FROM workorders.outbox_messages RETURNING id
        )
        UPDATE workorders.outbox_messages SET hold_id = hold.id, bucket = ~bucket FROM hold
        """
    )


def test_status_shows_what_waits_and_what_is_held_and_ends_with_1(
    outbox: Outbox, workorders: Command, name: str
) -> None:
    assert workorders("outbox", "status").code == 0
    hold_a_topic(outbox, name)
    shown = workorders("outbox", "status")
    assert shown.code == 1
    assert "no topic" in shown.out
    found = json.loads(workorders("outbox", "status", "--json").out)
    assert (found["topics"][0]["topic"], found["topics"][0]["waiting"]) == (name, 2)
    (hold,) = found["holds"]
    assert hold["reason"] == "no topic"
    assert set(hold) == {"id", "kind", "topic", "key", "messages", "reason", "tries", "since", "next_try_at"}
    assert [shard["shard"] for shard in found["shards"]] == [0]


def test_a_released_hold_gives_its_messages_back(outbox: Outbox, workorders: Command, name: str) -> None:
    hold_a_key(outbox, name)
    assert "1 of its messages wait again" in workorders("outbox", "release", "1", *BECAUSE).out
    assert outbox.waiting() == 1
    assert "Hold 1 does not exist" in workorders("outbox", "release", "1", *BECAUSE).err


def test_messages_are_deleted_unsent_only_if_that_is_confirmed(
    outbox: Outbox, workorders: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_a_key(outbox, name)
    monkeypatch.setattr(typer, "confirm", lambda _: False)
    refused = workorders("outbox", "purge", "1", "--reason", "a test")
    assert refused.code == 1
    assert refused.out == "The messages of hold 1 will be deleted, and never sent.\nNothing was changed.\n"
    assert outbox.ask("SELECT count(hold_id) FROM workorders.outbox_messages") == [(1,)]
    assert "1 messages of hold 1 were deleted unsent" in workorders("outbox", "purge", "1", *BECAUSE).out
    assert outbox.ask("SELECT count(*) FROM workorders.outbox_messages") == [(0,)]


def test_a_stalled_shard_continues_by_a_decision(outbox: Outbox, workorders: Command, name: str) -> None:
    outbox.write(OutboxMessage(topic=name, key="k", value="1"))
    outbox.ask(
        """
        INSERT INTO workorders.outbox_claims (shard, batch, topic, bucket, ids)
        SELECT 0, 1, topic, bucket, ARRAY[id] FROM workorders.outbox_messages
        """
    )
    assert workorders("outbox", "release", "--shard", "0", *BECAUSE).code == 2
    assert (
        "1 messages of its open batch were deleted as sent"
        in workorders("outbox", "release", "--shard", "0", "--sent", *BECAUSE).out
    )
    assert outbox.waiting() == 0
    (action,) = workorders("actions", "list", "--json").json()
    assert (action["action"], action["details"], action["reason"]) == (
        "outbox release",
        {"shard": 0, "sent": True},
        "a test",
    )


def test_the_identity_is_reset_and_what_stays_is_printed(outbox: Outbox, workorders: Command) -> None:
    outbox.ask("UPDATE workorders.outbox_identity SET shards = 2, cluster_id = 'c', transactional_id_prefix = 'p'")
    outbox.ask("UPDATE workorders.outbox_shards SET checkpoint_batch = -1 WHERE shard = 1")
    assert (
        "no relay has fenced the old producer of shard 1 since its release"
        in workorders("outbox", "reset-identity", *BECAUSE).out
    )
    recorded = "SELECT shards, cluster_id, transactional_id_prefix FROM workorders.outbox_identity"
    assert outbox.ask(recorded) == [(2, None, "p")]
    outbox.ask("UPDATE workorders.outbox_shards SET checkpoint_batch = 0")
    assert workorders("outbox", "reset-identity", *BECAUSE).code == 0
    assert outbox.ask(recorded) == [(None, None, None)]
