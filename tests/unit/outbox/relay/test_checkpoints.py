from typing import Any

import orjson
import pytest

from workorders.outbox.relay.checkpoints import Checkpoints, new_topic

OUTBOX = "0f3b1c0e-7f4e-4c51-9a1c-2d6a1a3a0001"


def checkpoints(outbox_id: str = OUTBOX, key: bytes = b"secret") -> Checkpoints:
    return Checkpoints({"bootstrap.servers": "127.0.0.1:1"}, "checkpoints", outbox_id, key)


def test_a_checkpoint_names_its_batch() -> None:
    assert checkpoints().batch_of(3, checkpoints().checkpoint(3, batch=17, epoch=4).value) == 17


@pytest.mark.parametrize(
    "change", [{"batch": 18}, {"epoch": 5}, {"shard": 2}, {"outbox": "another"}, {"signature": "00"}, {"more": 1}]
)
def test_a_checkpoint_of_which_a_word_was_changed_is_none(change: dict[str, Any]) -> None:
    words = orjson.loads(checkpoints().checkpoint(3, batch=17, epoch=4).value)
    assert checkpoints().batch_of(3, orjson.dumps({**words, **change})) is None


def test_a_checkpoint_of_another_shard_outbox_or_key_is_none() -> None:
    value = checkpoints().checkpoint(3, batch=17, epoch=4).value
    assert checkpoints().batch_of(2, value) is None
    assert checkpoints(outbox_id="another").batch_of(3, value) is None
    assert checkpoints(key=b"other").batch_of(3, value) is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"x", b"\xff", b"[]", b"7", b'"text"', b"{}", b'{"batch":1}', b'{"batch":"1","epoch":1}'),
        *(b'{"batch":1e400,"epoch":1}', b'{"batch":99999999999999999999,"epoch":1}', b"[" * 5000),
    ],
)
def test_what_is_no_checkpoint_is_none(value: bytes | None) -> None:
    assert checkpoints().batch_of(0, value) is None


@pytest.mark.parametrize(
    ("brokers", "copies", "config"),
    [
        (1, 1, {"cleanup.policy": "compact"}),
        (2, 2, {"cleanup.policy": "compact"}),
        (3, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
        (9, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    ],
)
def test_the_topic_is_copied_to_other_brokers_if_there_are_any(
    brokers: int, copies: int, config: dict[str, str]
) -> None:
    topic = new_topic("checkpoints", brokers=brokers)
    assert (topic.num_partitions, topic.replication_factor, topic.config) == (16, copies, config)
