"""A broker for the modules whose clients log in."""

from collections.abc import Iterator

import pytest

from local_stack.login_kafka import LoginKafka
from local_stack.stack import LocalStack
from support.login_kafka import login_kafka
from support.topics import Topics


@pytest.fixture(scope="module")
def kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """A broker that asks for logins."""
    with login_kafka(stack) as started:
        yield started


@pytest.fixture(scope="module")
def login_topics(kafka: LoginKafka) -> Topics:
    """Makes topics of that broker as a user with every right."""
    return Topics({"bootstrap.servers": kafka.bootstrap_servers})
