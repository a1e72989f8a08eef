"""Who may read the endpoints, and what they answer, without a database."""

from collections.abc import Sequence

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from workorders.core.metrics import Sample
from workorders.monitoring import health, snapshot
from workorders.monitoring.api import LatestSamples, make_router

TOKEN = "s3cret"


def polled(seconds_ago: float) -> list[Sample]:
    metric = next(metric for metric in snapshot.metrics() if metric.name == health.POLL_AGE)
    return [Sample(metric, (("trigger", "orders"),), seconds_ago)]


class Given(LatestSamples):
    """Samples that a test chooses."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__(lambda: "")
        self.samples = samples

    def get(self) -> Sequence[Sample]:
        return self.samples


def client(samples: LatestSamples, token: str | None = TOKEN) -> TestClient:
    app = FastAPI()
    app.include_router(make_router(samples, lambda: token))
    return TestClient(app)


def test_the_metrics_are_for_who_has_the_token() -> None:
    answer = client(Given(polled(5.0))).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'workorders_ingest_poll_age_seconds{trigger="orders"} 5.0' in answer.text


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"]
)
def test_every_other_caller_is_refused(given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    answer = client(Given(polled(5.0))).get("/metrics", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "orders" not in answer.text


def test_without_a_token_nobody_reads_the_metrics() -> None:
    for token in (None, ""):
        answer = client(Given(polled(5.0)), token).get("/metrics", headers={"Authorization": "Bearer "})
        assert answer.status_code == 403
        assert "WORKORDERS_METRICS_TOKEN_FILE" in answer.text


def test_everybody_reads_whether_something_is_wrong_and_only_the_token_tells_what() -> None:
    late = client(Given(polled(10_000.0)))
    assert (late.get("/health").status_code, late.get("/health").json()) == (503, {"status": "failing"})
    told = late.get("/health", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert "orders is not polling" in told["problems"][0]
    assert told["triggers"][0]["liveness"] == "not polling"
    good = client(Given(polled(5.0))).get("/health")
    assert (good.status_code, good.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("token", [TOKEN, "", None])
def test_a_caller_with_another_login_reads_whether_something_is_wrong_and_no_more(token: str | None) -> None:
    late = client(Given(polled(10_000.0)), token)
    for login in ("Bearer wrong", "Bearer ", "Basic eA=="):
        answer = late.get("/health", headers={"Authorization": login})
        assert (answer.status_code, answer.json()) == (503, {"status": "failing"})


def test_an_unavailable_database_is_said_without_its_address() -> None:
    samples = LatestSamples(lambda: "postgresql://a:hidden@127.0.0.1:1/a?connect_timeout=1")
    answer = client(samples).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503
    assert "hidden" not in answer.text
    assert "127.0.0.1" not in answer.text


def test_the_database_is_not_read_by_each_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[float] = [0.0]
    reads: list[float] = []
    samples = LatestSamples(lambda: "", lambda: now[0])

    def read() -> Sequence[Sample]:
        reads.append(now[0])
        return ()

    monkeypatch.setattr(samples, "_read", read)
    for second in (0.0, 1.0, 4.0, 6.0):
        now[0] = second
        samples.get()
    assert reads == [0.0, 6.0]
