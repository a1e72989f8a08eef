"""Logins of batches on a cluster, whose executors have no file of a certificate or key, and no secret."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from local_stack.certificates import Authority
from local_stack.login_kafka import LoginKafka, Settings
from local_stack.stack import LocalStack
from support.cluster_attempts import ServerOnCluster, server_on_cluster, submit_to_cluster
from support.in_process_trigger import TEN, InProcessTrigger, kept
from support.login_kafka import client_of_intermediate, in_files
from support.login_path import LoginPath
from support.pgbouncer import certified_pooler
from support.topics import Topics
from workorders.airflow.connections import database_url
from workorders.core.environment import DATABASE_URL_VARIABLE, FILE_SUFFIX
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.secrets import KAFKA_VARIABLE, JobSecrets

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

Attempt = Callable[[JobSecrets, int], None]
POSTGRES_FILES = ("sslrootcert", "sslcert", "sslkey")


@pytest.fixture(scope="module")
def certified_url(stack: LocalStack) -> Iterator[str]:
    """The connection string to Postgres with TLS, which takes a client with its certificate alone."""
    with certified_pooler(stack, Authority.create("a private authority")) as url:
        yield url


@pytest.fixture(scope="module", params=["connect", "submit"])
def attempt(request: pytest.FixtureRequest, stack: LocalStack) -> Iterator[Attempt]:
    """Makes an attempt at a batch: on a Spark Connect server on the cluster, or by an application submitted to it."""
    if request.param == "submit":
        yield partial(submitted, stack)
        return
    with server_on_cluster(stack, "logins") as server:
        yield partial(on_server, server)


def submitted(stack: LocalStack, secrets: JobSecrets, batch_id: int) -> None:
    submit_to_cluster(stack, {**stack.environment(), **secrets.to_environment()}, batch_id)


def on_server(server: ServerOnCluster, secrets: JobSecrets, batch_id: int) -> None:
    outcomes = server.attempt(secrets, batch_id)
    assert [outcome.error for outcome in outcomes] == [None]
    assert server.has_run_no_batch()


def certificate(kafka: LoginKafka) -> Settings:
    client = client_of_intermediate(kafka)
    return {**kafka.mutual_tls, "ssl.certificate.pem": client.chain, "ssl.key.pem": client.key()}


LOGINS: dict[str, Callable[[LoginKafka], Settings]] = {
    "SCRAM-SHA-512": lambda kafka: kafka.login("SCRAM-SHA-512"),
    "certificate": certificate,
    "tokens": lambda kafka: kafka.oauth(),
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
def test_both_clients_of_an_executor_log_in_where_a_private_authority_is_given_as_text(
    stack: LocalStack,
    connection: Connection,
    kafka: LoginKafka,
    login_topics: Topics,
    attempt: Attempt,
    *,
    name: str,
    login: Callable[[LoginKafka], Settings],
) -> None:
    """Spark's client reads the messages, and librdkafka looks for one behind the last: there is a marker."""
    path = LoginPath(stack, login(kafka), name, login_topics)
    path.produce()
    attempt(JobSecrets(stack.database_url, path.settings), path.plan())
    assert list(kept(connection, name).values()) == [list(range(5))]
    assert path.ledger(connection) == 6


def test_executors_verify_postgres_and_show_a_certificate_though_the_files_of_both_are_gone(
    stack: LocalStack,
    connection: Connection,
    topics: Topics,
    attempt: Attempt,
    certified_url: str,
    *,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    batch_id = InProcessTrigger(stack, name).batch()
    files = postgres_files(certified_url, tmp_path)
    parts = conninfo_to_dict(certified_url)
    given = {"conn_type": "postgres", "login": parts["user"], "schema": parts["dbname"]}
    extra = {"sslmode": parts["sslmode"], **{field: str(tmp_path / file) for field, file in files.items()}}
    address = {"host": parts["host"], "port": int(str(parts["port"]))}
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", json.dumps({**given, **address, "extra": extra}))
    secrets = JobSecrets(database_url("workorders_db"), stack.kafka_settings)
    for file in files.values():
        (tmp_path / file).unlink()
    attempt(secrets, batch_id)
    assert list(kept(connection, name).values()) == [list(range(10))]


@pytest.mark.usefixtures("attempt")
@pytest.mark.parametrize("attempt", ["submit"], indirect=True)  # so that no server has the cores of the cluster
def test_a_submitted_driver_reads_mounted_secrets_and_sends_the_certificates_that_they_name(
    stack: LocalStack,
    connection: Connection,
    kafka: LoginKafka,
    login_topics: Topics,
    certified_url: str,
    *,
    name: str,
    tmp_path: Path,
) -> None:
    """The names of the certificates exist only in the folder of the driver: executors run in their own folders."""
    settings = certificate(kafka)
    path = LoginPath(stack, settings, name, login_topics)
    path.produce()
    batch_id = path.plan()
    url = make_conninfo(certified_url, **postgres_files(certified_url, tmp_path))
    environment = stack.environment()
    for variable, text in (
        (DATABASE_URL_VARIABLE, url),
        (KAFKA_VARIABLE, json.dumps(in_files(settings, tmp_path, by_name=True))),
    ):
        del environment[variable]
        (tmp_path / variable).write_text(f"{text}\n", encoding="utf-8")
        environment[variable + FILE_SUFFIX] = str(tmp_path / variable)
    done = submit_to_cluster(stack, environment, batch_id, folder=tmp_path)
    assert "PRIVATE KEY" not in done.stdout + done.stderr
    assert list(kept(connection, name).values()) == [list(range(5))]


def postgres_files(url: str, folder: Path) -> dict[str, str]:
    """Write the certificates and the key of a connection string to files, and return the files' names."""
    parts = conninfo_to_dict(url)
    for field in POSTGRES_FILES:
        file = folder / field
        file.touch(mode=0o600)  # libpq refuses a key that others may read
        file.write_text(str(parts[field]), encoding="ascii")
    return {field: field for field in POSTGRES_FILES}
