"""Who may read the endpoint, and what it answers, without a database."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from workorders.core import kept_value
from workorders.core.metrics import Metric, Reading, Sample, readings
from workorders.monitoring import problems
from workorders.monitoring.api import make_router, prometheus_name, read_samples, render

TOKEN = "s3cret"
LAG = Metric("workorders.ingest.lag", "gauge", "{message}", "How far behind.")
AGE = Metric("workorders.ingest.oldest_age", "gauge", "s", "How long.")
MESSAGES = Metric("workorders.ingest.messages", "counter", "{message}", "How many.")
READINGS = (Reading(("trigger",), (LAG, AGE), "-"), Reading(("trigger", "outcome"), (MESSAGES,), "-"))


def polled(seconds_ago: float) -> list[Sample]:
    metric = next(metric for reading in readings() for metric in reading.metrics if metric.name == problems.POLL_AGE)
    return [Sample(metric, (("trigger", "orders"),), seconds_ago)]


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", TOKEN)


def client(age: float | None) -> TestClient:
    """Return a client of endpoints whose trigger has polled some seconds ago; of a database that fails if None."""

    def read() -> Sequence[Sample]:
        if age is None:
            return read_samples(lambda: "postgresql://a:hidden@127.0.0.1:1/a?connect_timeout=1")
        return polled(age)

    app = FastAPI()
    app.include_router(make_router(read))
    return TestClient(app)


def test_the_metrics_are_for_who_has_the_token() -> None:
    answer = client(5.0).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'workorders_ingest_poll_age_seconds{trigger="orders"} 5.0' in answer.text


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"]
)
def test_every_other_caller_is_refused(given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    answer = client(5.0).get("/metrics", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "orders" not in answer.text


@pytest.mark.parametrize("file", [None, "token"])
def test_without_a_token_that_can_be_read_nobody_reads_the_metrics(
    file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", "")
    if file is not None:
        monkeypatch.setenv("WORKORDERS_METRICS_TOKEN_FILE", str(tmp_path / file))
    answer = client(5.0).get("/metrics", headers={"Authorization": "Bearer x"})
    assert answer.status_code == (403 if file is None else 503)
    assert str(tmp_path) not in answer.text


def test_an_unavailable_database_is_said_without_its_address() -> None:
    answer = client(None).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503
    assert "hidden" not in answer.text
    assert "127.0.0.1" not in answer.text


def test_many_callers_cause_one_read_of_the_database_and_strangers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it hangs, the threads of Airflow's pages stay free."""
    monkeypatch.setattr(kept_value, "_PATIENCE_SECONDS", 0.2)
    calls: list[str] = []
    continues = Event()

    def hang(what: str) -> str:
        calls.append(what)
        assert continues.wait(60)
        return TOKEN

    app = FastAPI()
    app.include_router(make_router(lambda: polled(len(hang("samples")))))

    @app.get("/page")
    def page() -> str:
        return "of Airflow"

    async def scene() -> None:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://airflow") as caller:
            login = {"Authorization": f"Bearer {TOKEN}"}
            callers = [asyncio.create_task(caller.get("/metrics", headers=login)) for _ in range(60)]
            while len(calls) < 1:
                await asyncio.sleep(0.01)
            assert (await asyncio.wait_for(caller.get("/page"), 30)).status_code == 200
            statuses = [answer.status_code for answer in await asyncio.gather(*callers)]
            assert (statuses, calls) == ([503] * 60, ["samples"])
            guesses = [caller.get("/metrics", headers={"Authorization": "Bearer guess"}) for _ in range(60)]
            assert {answer.status_code for answer in await asyncio.gather(*guesses)} == {401}
            assert calls == ["samples"]

    try:
        asyncio.run(scene())
    finally:
        continues.set()


def test_names_have_their_unit_and_counters_a_total() -> None:
    assert [prometheus_name(metric) for metric in (LAG, AGE, MESSAGES)] == [
        "workorders_ingest_lag",
        "workorders_ingest_oldest_age_seconds",
        "workorders_ingest_messages_total",
    ]


def test_hostile_labels_come_back_as_they_were() -> None:
    name = 'a"b\\c\nd{e="f"} 1'
    samples = [
        Sample(LAG, (("trigger", name),), 7.0),
        Sample(MESSAGES, (("trigger", "orders"), ("outcome", "created")), 3.0),
    ]
    text = render(READINGS, samples).decode()
    read = {found.name: found for found in text_string_to_metric_families(text)}
    (lag,) = read["workorders_ingest_lag"].samples
    assert (lag.labels, lag.value) == ({"trigger": name}, 7.0)
    assert [found.name for found in read["workorders_ingest_messages"].samples] == ["workorders_ingest_messages_total"]


def test_no_two_metrics_have_one_name() -> None:
    names = [prometheus_name(metric) for reading in readings() for metric in reading.metrics]
    assert sorted(set(names)) == sorted(names)
