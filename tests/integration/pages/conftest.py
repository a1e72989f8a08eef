"""The pages on the real Postgres and Kafka, with one scene for all tests that only look."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from local_stack.stack import LocalStack
from support.pages import browser_of, served, site
from support.pages_scene import Scene, make_scene
from workorders.core.bulk import jobs
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.pages import needs, selection
from workorders.pages.site import Site


@pytest.fixture(autouse=True)
def _all_that_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show all of it: other tests leave more stalls in the shared database than the overview shows."""
    monkeypatch.setattr(needs, "_MAX_SHOWN", 1_000_000)


@pytest.fixture
def slow_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count of a selection takes longer than its page waits at first."""
    count_matching = jobs.count_matching

    def counted_slowly(connection: Connection, wanted: Filter) -> dict[str, int]:
        connection.execute("SELECT pg_sleep(0.1)")
        return count_matching(connection, wanted)

    monkeypatch.setattr(selection, "_FIRST_MILLISECONDS", 1)
    monkeypatch.setattr(jobs, "count_matching", counted_slowly)


@pytest.fixture(scope="package")
def scene(stack: LocalStack) -> Scene:
    """Triggers, a stall, and work orders in every state."""
    return make_scene(stack, f"p{uuid4().hex[:8]}-")


@pytest.fixture(scope="package")
def pages_site(stack: LocalStack) -> Site:
    """Where these pages get their facts from."""
    return site(stack.database_url, stack.kafka_settings)


@pytest.fixture
def client(pages_site: Site) -> Iterator[TestClient]:
    """A browser of a user who may do everything."""
    with browser_of(served(pages_site)) as client:
        yield client
