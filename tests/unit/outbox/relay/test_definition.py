from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.outbox.relay.definition import RelayDefinition, load_relay


def file(folder: Path, text: str) -> Path:
    path = folder / "outbox.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_or_with_nothing_in_it_everything_has_its_default(tmp_path: Path) -> None:
    assert load_relay(tmp_path / "none.yaml") == RelayDefinition()
    assert load_relay(file(tmp_path, "# nothing\n")) == RelayDefinition()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("- shards", "outbox.yaml: the outbox's file is a mapping with fields such as shards and topics."),
        ("shard: 2", "outbox.yaml, line 1: shard: there is no such field; did you mean shards?"),
        (
            "checkpoint_topic: Orders/a",
            "outbox.yaml, line 1: checkpoint_topic: expected a topic's name (1 to 249 of a-z, A-Z, 0-9, '.', '_' "
            "and '-'), got 'Orders/a'.",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_field(tmp_path: Path, text: str, refused: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        load_relay(file(tmp_path, text))
    assert str(error.value) == refused


def test_the_names_of_kafka_may_have_capitals_and_dots(tmp_path: Path) -> None:
    given = "checkpoint_topic: Orders.Checkpoints\ntransactional_id_prefix: Shop.A\ntopics: {Orders.A: {}}\n"
    relay = load_relay(file(tmp_path, given))
    assert (relay.checkpoint_topic, relay.transactional_id_prefix, *relay.topics) == (
        "Orders.Checkpoints",
        "Shop.A",
        "Orders.A",
    )
