"""Every client logs in to a real broker, in every way that the page lists as tested."""

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from local_stack.login_kafka import USER, LoginKafka
from local_stack.stack import LocalStack
from support.batch_submission import batch_command
from support.command import Command
from support.login_kafka import client_of_intermediate, in_files
from support.login_path import MESSAGES, LoginPath
from support.topics import Topics
from workorders.airflow.triggers.polling import FAILED
from workorders.kafka.client import broker_errors, range_consumer, requests
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.java_settings import jaas_quoted, java_settings
from workorders.kafka.client.secrets import KAFKA_VARIABLE
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import KafkaRefusedError
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import TransactionalProducer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SECONDS = 3.0
PASSPHRASE = "a passphrase"
Settings = dict[str, Any]
Login = Callable[[LoginKafka, Path], Settings]


@pytest.fixture
def whole_path(
    stack: LocalStack,
    login_topics: Topics,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Settings], None]:
    """Takes messages with these settings through every client."""

    def taken(settings: Settings) -> None:
        path = LoginPath(stack, settings, name, login_topics)
        path.as_connection(monkeypatch)
        path.produce()
        assert FAILED not in path.wait()
        batch_id = path.plan()
        assert [(outcome.error, outcome.created.created) for outcome in path.ingest(batch_id)] == [(None, 5)]
        path.commit(batch_id)
        assert path.committed() == [6]
        shown = path.status(Command(monkeypatch, capsys))
        assert (shown["problem"], [part["committed_lag"] for part in shown["partitions"]]) == (None, [0])
        assert path.relay() == MESSAGES

    return taken


def test_every_client_logs_in_with_a_password_where_a_private_authority_is_given_as_text(
    kafka: LoginKafka, whole_path: Callable[[Settings], None]
) -> None:
    whole_path(kafka.login("SCRAM-SHA-512"))


def certificate(key: Callable[[Any], Settings]) -> Login:
    """Return a login by a certificate with its key in a form."""

    def login(kafka: LoginKafka, _: Path) -> Settings:
        client = client_of_intermediate(kafka)
        return {**kafka.mutual_tls, "ssl.certificate.pem": client.chain, **key(client)}

    return login


def keystore(kafka: LoginKafka, folder: Path) -> Settings:
    store = folder / "client.p12"
    store.write_bytes(client_of_intermediate(kafka).keystore(PASSPHRASE))
    return {**kafka.mutual_tls, "ssl.keystore.location": str(store), "ssl.keystore.password": PASSPHRASE}


def by_function(kafka: LoginKafka, _: Path) -> Settings:
    """Return a login whose tokens come from a function; Java's client has its own login."""
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


SECRET = "t0p-secret"
WRONG: dict[str, tuple[Login, str]] = {
    "a password": (
        lambda kafka, _: {**kafka.login("PLAIN"), "sasl.password": SECRET},
        "Authentication failed: Invalid username or password",
    ),
    "a password of SCRAM": (
        lambda kafka, _: {**kafka.login("SCRAM-SHA-512"), "sasl.password": SECRET},
        "invalid credentials with SASL mechanism SCRAM-SHA-512",
    ),
    "a mechanism": (
        lambda kafka, _: {**kafka.login("PLAIN"), "bootstrap.servers": kafka.oauth()["bootstrap.servers"]},
        "broker's supported mechanisms: OAUTHBEARER",
    ),
    "a client's secret": (
        lambda kafka, _: {**kafka.oauth(), "sasl.oauthbearer.client.secret": SECRET},
        'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}',
    ),
    "the authority of the tokens' endpoint": (
        lambda kafka, _: {**kafka.oauth(), "https.ca.pem": kafka.authority.pem},
        "Failed to acquire SASL OAUTHBEARER token: SSL certificate",
    ),
    "a token": (
        lambda kafka, folder: {**by_function(kafka, folder), "sasl.oauthbearer.config": f"{kafka.issuer.token(USER)}x"},
        '{"status":"invalid_token"}',
    ),
    "a function for tokens": (
        lambda kafka, folder: {**by_function(kafka, folder), "oauth_cb": "support.given_token.no_token"},
        "support.given_token.no_token returned no token: RuntimeError: no credentials in the cloud",
    ),
    "the authority": (
        lambda kafka, _: {**kafka.tls, "ssl.ca.pem": kafka.issuer.authority.pem},
        "broker certificate could not be verified",
    ),
    "no certificate": (lambda kafka, _: kafka.mutual_tls, "tls alert bad certificate"),
}
PARTITION = Partition("orders", 0, "id")
CLIENTS: dict[str, Callable[[dict[str, str]], object]] = {
    "admin": lambda given: run(KafkaAdmin(given, timeout_seconds=SECONDS).partitions(["orders"])).require(),
    "group": lambda given: requests.committed_offsets(given, "group", [PARTITION], SECONDS),
    "range": lambda given: next(range_consumer.read_range(given, OffsetRange(PARTITION, 0, 9), 0)),
    "checkpoints": lambda given: Checkpoints(given, "checkpoints", "outbox", b"key").ensure_topic(),
    "producer": lambda given: TransactionalProducer(RelayDefinition(), given, "id"),
}


@pytest.mark.long
@pytest.mark.parametrize(("login", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_login_soon_ends_in_an_error_with_its_reason_in_every_client_of_librdkafka(
    kafka: LoginKafka, login: Login, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_errors, "REQUEST_TIMEOUT_SECONDS", SECONDS)
    monkeypatch.setattr(range_consumer, "TIMEOUT_SECONDS", SECONDS)
    settings = client_settings(login(kafka, tmp_path))

    def sentence(client: Callable[[dict[str, str]], object]) -> str:
        with pytest.raises(KafkaRefusedError) as raised:
            client(settings)
        return str(raised.value)

    with ThreadPoolExecutor() as pool:
        sentences = dict(zip(CLIENTS, pool.map(sentence, CLIENTS.values()), strict=True))
    for client, text in sentences.items():
        assert reason in text, (client, text)
        assert "heck the credentials" in text
        assert SECRET not in text


@pytest.mark.long
def test_a_wrong_login_of_sparks_client_alone_stalls_the_range_with_the_reason_and_without_the_password(
    stack: LocalStack, kafka: LoginKafka, login_topics: Topics, name: str
) -> None:
    right = kafka.login("SCRAM-SHA-512")
    wrong = java_settings({**right, "sasl.password": SECRET})
    path = LoginPath(stack, {**right, "java": {"sasl.jaas.config": wrong["sasl.jaas.config"]}}, name, login_topics)
    path.produce()
    (outcome,) = path.ingest(path.plan())
    assert outcome.error is not None
    assert "SaslAuthenticationException: Authentication failed" in outcome.error
    assert outcome.error.endswith(
        "nothing was committed there. Check the login of Spark's client in the Airflow Kafka connection."
    )
    assert SECRET not in outcome.error


@pytest.mark.long
def test_a_submitted_application_logs_in_and_neither_its_output_nor_its_event_log_has_a_secret(
    stack: LocalStack, kafka: LoginKafka, login_topics: Topics, name: str, *, tmp_path: Path
) -> None:
    client = kafka.client_authority.client(USER)
    certificate = {"ssl.certificate.pem": client.chain, "ssl.key.pem": client.key()}
    path = LoginPath(stack, {**kafka.login("PLAIN"), **certificate}, name, login_topics)
    path.produce()
    log = {"enabled": "true", "compress": "false", "dir": tmp_path.as_uri()}
    conf = {f"spark.eventLog.{setting}": value for setting, value in log.items()}
    command = batch_command(stack, path.plan(), conf)
    environment = {**stack.environment(), KAFKA_VARIABLE: json.dumps(path.settings)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    events = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    assert "SparkListenerSQLExecutionStart" in events
    for secret in (kafka.password, jaas_quoted(kafka.password), "PlainLoginModule", "PRIVATE KEY"):
        for shown in (done.stdout, done.stderr, events):
            assert secret not in shown
            assert json.dumps(secret)[1:-1] not in shown
