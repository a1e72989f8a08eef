"""The local stack for tests that need real parts."""

import warnings
from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    """Postgres, with the tables of work orders, and Kafka."""
    with LocalStack() as running:
        yield running
        running.keep_logs = request.session.testsfailed > 0


@pytest.fixture(autouse=True)
def servers_at_work(request: pytest.FixtureRequest) -> None:
    """Start what the test before has left ended: that one has failed, and no other one shall fail for it."""
    if "stack" not in request.fixturenames:
        return
    stack: LocalStack = request.getfixturevalue("stack")
    for server in (stack.postgres, stack.kafka):
        if not server.process.running:
            warnings.warn(f"{server.process.name} had ended and is started again.", stacklevel=1)
            server.start()
