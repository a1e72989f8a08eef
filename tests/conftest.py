"""The local stack for tests that need real parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import LocalStack


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    """Postgres, with the tables of work orders, and Kafka."""
    with LocalStack() as running:
        yield running
        running.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="session")
def triggers_folder() -> Path | None:
    """The trigger definitions of `airflow_stack`: the repository's own unless a directory of tests overrides this."""
    return None


@pytest.fixture(scope="session")
def airflow_stack(request: pytest.FixtureRequest, triggers_folder: Path | None) -> Iterator[LocalStack]:
    """A stack of its own with Airflow: its scheduler, triggerer, DAG processor and API server."""
    with LocalStack(airflow=True, triggers_folder=triggers_folder) as running:
        yield running
        running.keep_logs = request.session.testsfailed > 0
