"""A change through a page is in Airflow's audit log."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import pytest
from airflow.models.log import Log
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from workorders.airflow import api_server
from workorders.pages import airflow
from workorders.pages.app import make_app
from workorders.pages.site import Change, Event, Site


def test_a_change_is_an_entry_for_each_of_its_dags_with_the_true_user(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    Log.__table__.create(engine)

    @contextmanager
    def session(*, scoped: bool) -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened
            opened.commit()

    monkeypatch.setattr(api_server, "create_session", session)
    airflow.record_change(
        Change(event="workorders_rerun", user="ada", dag_ids=["admit_runs", "ship_runs"], details={"job": 7})
    )
    with Session(engine) as opened:
        rows = opened.execute(select(Log.event, Log.owner, Log.dag_id, Log.extra, Log.dttm)).all()
    assert [row[:3] for row in rows] == [("workorders_rerun", "ada", dag) for dag in ("admit_runs", "ship_runs")]
    assert {json.loads(row.extra)["job"] for row in rows} == {7}
    assert all(row.dttm is not None for row in rows)


def test_no_name_is_longer_than_the_log_takes() -> None:
    assert max(map(len, get_args(Event))) <= 60


def test_the_pages_in_airflow_write_into_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    sites: list[Site] = []
    monkeypatch.setattr(airflow, "make_app", lambda site: sites.append(site) or make_app(site))  # type: ignore[func-returns-value]
    airflow.application()
    assert [site.record_change for site in sites] == [airflow.record_change]
