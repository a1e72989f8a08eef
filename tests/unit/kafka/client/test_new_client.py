"""The error when a client cannot start, for each client."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import workorders.kafka
from support.wrong_settings import WRONG, assert_reported, wrong_settings
from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client import range_consumer, requests
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.settings import open_admin
from workorders.kafka.exceptions import ClientSettingsError
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import TransactionalProducer

PARTITION = Partition("orders", 0, "id")
Start = Callable[[Mapping[str, Any]], object]
STARTS: dict[str, Start] = {
    "admin": KafkaAdmin,
    "group": lambda given: requests.committed_offsets(given, "group", [PARTITION], 1.0),
    "range": lambda given: next(range_consumer.read_range(given, OffsetRange(PARTITION, 0, 9), 0)),
    "checkpoints": lambda given: Checkpoints(given, "checkpoints", "outbox", b"key"),
    "producer": lambda given: TransactionalProducer(RelayDefinition(), given, "id"),
    "command line": lambda given: open_admin("kafka_default", lambda _: given),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_client_that_cannot_start_reports_why_and_what_to_do(start: Start, what: str) -> None:
    with pytest.raises(ClientSettingsError) as raised:
        start(wrong_settings(what))
    assert isinstance(raised.value, WorkOrdersError)
    assert_reported(str(raised.value), what)


def test_no_client_is_started_by_its_class_alone() -> None:
    """Code that does that answers a wrong setting with a traceback."""
    package = Path(workorders.kafka.__file__).parent
    found = [
        path.name
        for path in package.rglob("*.py")
        if any(f"{kind}(" in path.read_text("utf-8") for kind in (" Consumer", " AdminClient", " Producer"))
    ]
    assert found == []


@pytest.mark.parametrize("kind", [AdminClient, Consumer, Producer], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.pem", "ssl.key.password"])
def test_no_secret_is_repeated_even_where_librdkafka_quotes_it(kind: type[Any], name: str) -> None:
    # A password in a second setting, put there by mistake, is quoted, because that setting's name means no secret.
    with pytest.raises(ClientSettingsError) as raised:
        new_client(kind, {"group.id": "group", name: "t0p\nsecret", "security.protocol": "t0p secret"})
    assert 'Invalid value "***" for configuration property "security.protocol"' in str(raised.value)
    assert "t0p" not in str(raised.value)


def test_a_value_that_is_no_secret_is_shown_since_it_is_what_has_to_be_corrected() -> None:
    with pytest.raises(ClientSettingsError, match='Invalid value "tls" for configuration property'):
        KafkaAdmin({"bootstrap.servers": "a:1", "security.protocol": "tls"})


def test_the_endpoint_of_tokens_is_trusted_by_the_systems_authorities_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authorities = tmp_path / "authorities.pem"
    authorities.write_text("")
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=str(authorities)))
    oidc = {"sasl.oauthbearer.method": "oidc"}
    assert new_client(dict, oidc) == {**oidc, "https.ca.location": str(authorities)}
    for given in ({**oidc, "https.ca.pem": "text"}, {**oidc, "https.ca.location": "/a"}, {"sasl.mechanisms": "PLAIN"}):
        assert new_client(dict, given) == given
