"""The pages on the real Postgres and Kafka, with one scene for all tests that only look."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from local_stack.stack import LocalStack
from support.pages import browser_of, served, site
from support.pages_scene import Scene, make_scene
from workorders.pages import states
from workorders.pages.site import Site


@pytest.fixture(autouse=True)
def _all_that_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show all of it: other tests leave more stalls in the shared database than the overview shows."""
    monkeypatch.setattr(states, "MAX_SHOWN", 1_000_000)


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
