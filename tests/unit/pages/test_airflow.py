"""What Airflow's API server gets: the pages for its users, and the metrics for machines beside them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from airflow.models.log import Log
from fastapi.routing import APIRoute
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from workorders.airflow import api_server
from workorders.pages import airflow
from workorders.pages.airflow import application
from workorders.pages.app import HEADERS, make_app
from workorders.pages.site import Site


def test_the_metrics_are_there_with_a_token_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", "secret")
    app = application()
    assert {"/", "/metrics"} <= {route.path for route in app.routes if isinstance(route, APIRoute)}
    answer = TestClient(app).get("/metrics", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert "token is missing or wrong" in answer.text
    assert answer.headers["X-Content-Type-Options"] == HEADERS["X-Content-Type-Options"]


def test_a_page_is_for_users_of_airflow_alone() -> None:
    answer = TestClient(application()).get("/")
    assert answer.status_code == 401
    assert "Your session has ended" in answer.text


def test_a_change_is_an_entry_for_each_of_its_dags_with_the_true_user(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    Log.__table__.create(engine)

    @contextmanager
    def session(*, scoped: bool) -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened
            opened.commit()

    monkeypatch.setattr(api_server, "create_session", session)
    api_server.write_audit_log("workorders_rerun", ["admit_runs", "ship_runs"], "ada", '{"job": 7}')
    with Session(engine) as opened:
        rows = opened.execute(select(Log.event, Log.owner, Log.dag_id, Log.extra, Log.dttm)).all()
    assert [row[:3] for row in rows] == [("workorders_rerun", "ada", dag) for dag in ("admit_runs", "ship_runs")]
    assert {json.loads(row.extra)["job"] for row in rows} == {7}
    assert all(row.dttm is not None for row in rows)


def test_the_pages_in_airflow_write_into_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    sites: list[Site] = []
    monkeypatch.setattr(airflow, "make_app", lambda site: sites.append(site) or make_app(site))  # type: ignore[func-returns-value]
    application()
    assert [site.write_audit_log for site in sites] == [api_server.write_audit_log]
