"""The local stack for tests that need real parts."""

from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    """Postgres, with the tables of work orders, and Kafka."""
    with LocalStack() as running:
        yield running
        running.keep_logs = request.session.testsfailed > 0
