"""The endpoint on a real database."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from local_stack.stack import LocalStack
from support.executing import Executing
from support.prometheus import check
from workorders.monitoring.api import make_router, read_samples

pytestmark = pytest.mark.integration


@pytest.fixture
def client(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> TestClient:
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
