"""Every client logs in to a real broker, by every mechanism that the page lists as tested."""

from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack
from support.command import Command
from support.login_kafka import LoginKafka, login_kafka
from support.login_path import MESSAGES, LoginPath
from support.topics import Topics
from workorders.airflow.triggers.polling import FAILED

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """A broker that asks for logins."""
    with login_kafka(stack) as started:
        yield started


@pytest.fixture(scope="module")
def topics(kafka: LoginKafka) -> Topics:
    """Makes topics as a user with every right."""
    return Topics({"bootstrap.servers": kafka.bootstrap_servers})


def test_every_client_logs_in_with_a_password_where_a_private_authority_is_given_as_text(
    stack: LocalStack,
    kafka: LoginKafka,
    topics: Topics,
    name: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = LoginPath(stack, kafka.login("SCRAM-SHA-512"), name, topics)
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
