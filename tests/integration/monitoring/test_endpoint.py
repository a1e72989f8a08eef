"""The endpoint on a real database, and what reports the same to Airflow's stats."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk.observability import stats
from airflow.triggers.base import TaskSuccessEvent
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from local_stack.stack import LocalStack
from support.executing import Executing
from support.prometheus import check
from workorders.airflow.stats import ReportMetricsTrigger
from workorders.monitoring.api import make_router, read_samples

pytestmark = pytest.mark.integration


@pytest.fixture
def client(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The endpoint, and the connection of what reports to Airflow's stats."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", "s3cret")
    app = FastAPI()
    app.include_router(make_router(lambda: read_samples(lambda: stack.database_url)))
    return TestClient(app)


@pytest.fixture
def workflow(stack: LocalStack, name: str) -> str:
    """A workflow with two work orders that wait."""
    work = Executing(stack.database_url, name)
    work.create([{"do": "echo"}, {"do": "echo"}])
    return name


def text_of(client: TestClient) -> str:
    answer = client.get("/metrics", headers={"Authorization": "Bearer s3cret"})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_token_opens_the_metrics_of_the_database(client: TestClient, workflow: str) -> None:
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
    families = {family.name: family for family in text_string_to_metric_families(text_of(client))}
    waiting = families["workorders_runs_waiting"].samples
    assert [sample.value for sample in waiting if sample.labels == {"workflow": workflow}] == [2.0]


def test_prometheus_has_nothing_to_say_against_the_text(client: TestClient, workflow: str) -> None:
    assert check("check", "metrics", text=text_of(client).encode()) == ""


class Backend:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.gauges: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    def gauge(self, stat: str, value: float, tags: dict[str, str] | None = None, **_: Any) -> None:
        self.gauges[stat, frozenset((tags or {}).items())] = value

    def incr(self, stat: str, count: int = 1, tags: dict[str, str] | None = None, **_: Any) -> None:
        """Counters are tested without a database."""


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    stats.initialize(factory=lambda: made, export_legacy_names=False)  # type: ignore[arg-type, return-value]
    yield made
    stats.initialize(factory=Backend, export_legacy_names=False)  # type: ignore[arg-type]


@pytest.mark.usefixtures("client")
def test_the_triggerer_sends_the_same_figures_to_airflows_stats(backend: Backend, workflow: str) -> None:
    trigger = ReportMetricsTrigger()
    trigger._ends_at = 0.0

    async def event() -> Any:
        return await anext(aiter(trigger.run()))

    assert isinstance(asyncio.run(event()), TaskSuccessEvent)
    assert backend.gauges["workorders.runs.waiting", frozenset({("workflow", workflow)})] == 2.0
