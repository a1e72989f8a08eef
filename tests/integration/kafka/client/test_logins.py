"""Every client logs in to a real broker, in every way that the page lists as tested."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from local_stack.stack import LocalStack
from support.command import Command
from support.login_kafka import USER, LoginKafka, login_kafka
from support.login_path import MESSAGES, LoginPath
from support.topics import Topics
from workorders.airflow.triggers.polling import FAILED
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.settings import client_settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PASSPHRASE = "a passphrase"
Settings = dict[str, Any]
Login = Callable[[LoginKafka, Path], Settings]


@pytest.fixture(scope="module")
def kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """A broker that asks for logins."""
    with login_kafka(stack) as started:
        yield started


@pytest.fixture(scope="module")
def topics(kafka: LoginKafka) -> Topics:
    """Makes topics as a user with every right."""
    return Topics({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def whole_path(
    stack: LocalStack,
    topics: Topics,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Settings], None]:
    """Takes messages with these settings through every client."""

    def taken(settings: Settings) -> None:
        path = LoginPath(stack, settings, name, topics)
        path.as_connection(monkeypatch)
        path.produce()
        assert FAILED not in path.wait()
        batch_id = path.plan()
        assert [(outcome.error, outcome.created.created) for outcome in path.ingest(batch_id)] == [(None, 5)]
        path.commit(batch_id)
        assert path.committed() == [6]
        shown = path.status(Command(monkeypatch, capsys))
        assert (shown["problem"], [part["group_lag"] for part in shown["partitions"]]) == (None, [0])
        assert path.relay() == MESSAGES

    return taken


def test_every_client_logs_in_with_a_password_where_a_private_authority_is_given_as_text(
    kafka: LoginKafka, whole_path: Callable[[Settings], None]
) -> None:
    whole_path(kafka.login("SCRAM-SHA-512"))


def in_files(settings: Settings, folder: Path) -> Settings:
    """Return the settings with files in place of texts."""
    found = {}
    for setting, value in settings.items():
        if setting.endswith(".pem"):
            file = folder / setting
            file.write_text(value)
            found[setting.removesuffix("pem") + "location"] = str(file)
        else:
            found[setting] = value
    return found


def certificate(key: Callable[[Any], Settings]) -> Login:
    """Return a login by a certificate, whose issuer the broker does not know, but only the root."""

    def login(kafka: LoginKafka, _: Path) -> Settings:
        client = kafka.client_authority.intermediate("clients' intermediate CA").client(USER)
        return {**kafka.mutual_tls, "ssl.certificate.pem": client.chain, **key(client)}

    return login


def keystore(kafka: LoginKafka, folder: Path) -> Settings:
    store = folder / "client.p12"
    store.write_bytes(kafka.client_authority.intermediate("clients' intermediate CA").client(USER).keystore(PASSPHRASE))
    return {**kafka.mutual_tls, "ssl.keystore.location": str(store), "ssl.keystore.password": PASSPHRASE}


def by_function(kafka: LoginKafka, _: Path) -> Settings:
    """Return a login whose tokens come from a function; Java's client has a login of its own."""
    settings, own = kafka.oauth(), java_settings(kafka.oauth())
    token = {"oauth_cb": "support.given_token.token", "sasl.oauthbearer.config": kafka.issuer.token(USER)}
    others = {name: value for name, value in settings.items() if not name.startswith(("sasl.oauthbearer", "https"))}
    return {**others, **token, "java": {name: value for name, value in own.items() if name.startswith("sasl.")}}


PKCS8 = certificate(lambda client: {"ssl.key.pem": client.key()})
LOGINS: dict[str, Login] = {
    "private authority": lambda kafka, _: kafka.tls,
    "private authority in a file": lambda kafka, folder: in_files(kafka.tls, folder),
    "certificate": PKCS8,
    "certificate in files": lambda kafka, folder: in_files(PKCS8(kafka, folder), folder),
    "certificate with an encrypted key": certificate(
        lambda client: {"ssl.key.pem": client.key(PASSPHRASE), "ssl.key.password": PASSPHRASE}
    ),
    "certificate with an old key": certificate(
        lambda client: {"ssl.key.pem": client.key(form=PrivateFormat.TraditionalOpenSSL)}
    ),
    "keystore": keystore,
    "PLAIN": lambda kafka, _: kafka.login("PLAIN"),
    "SCRAM-SHA-256": lambda kafka, _: kafka.login("SCRAM-SHA-256"),
    "tokens": lambda kafka, _: kafka.oauth(),
    "tokens, authorities in files": lambda kafka, folder: in_files(kafka.oauth(), folder),
    "tokens of a function": by_function,
}


@pytest.mark.long
@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
def test_every_client_logs_in_by_every_mechanism(
    kafka: LoginKafka,
    whole_path: Callable[[Settings], None],
    login: Login,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "support.given_token.token")
    settings = login(kafka, tmp_path)
    whole_path(settings)
    # What executors get.
    for derived in (client_settings(settings), java_settings(settings)):
        assert [name for name in derived if name.endswith(".location")] == []
