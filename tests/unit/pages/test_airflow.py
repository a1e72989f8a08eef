"""What Airflow's API server gets: the pages for its users, and the endpoints for machines beside them."""

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from workorders.pages.airflow import application
from workorders.pages.app import HEADERS


def test_the_endpoints_for_machines_are_there_with_a_token_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", "secret")
    app = application()
    assert {"/", "/metrics", "/health"} <= {route.path for route in app.routes if isinstance(route, APIRoute)}
    answer = TestClient(app).get("/metrics", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert "token is missing or wrong" in answer.text
    assert answer.headers["X-Content-Type-Options"] == HEADERS["X-Content-Type-Options"]


def test_a_page_is_for_users_of_airflow_alone() -> None:
    answer = TestClient(application()).get("/")
    assert answer.status_code == 401
    assert "Your session has ended" in answer.text
