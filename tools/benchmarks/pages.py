"""How long the pages and the metrics of a busy installation take, asked over HTTP as one browser asks."""

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from html import unescape
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from benchmarks import many, search
from benchmarks.busy import Installation
from local_stack.stack import LocalStack
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.ids import first_id
from workorders.core.metrics import take_samples
from workorders.core.postgres.connection import Connection, connect
from workorders.monitoring.api import TOKEN_VARIABLE

TOKEN: Final = "benchmark"
_ROOT: Final = "/workorders"
_UPDATE: Final = {"hx-request": "true"}
"""The header with which a page asks for itself again; then the pages ask Kafka as well."""
_SECONDS: Final = 60.0
_SAMPLE: Final = 500
_OLDER: Final = re.compile(rf'href="{_ROOT}([^"]+)">Older<')

Request = tuple[str, Mapping[str, str]]
"""A path, and headers."""


@contextmanager
def api_server(say: Callable[[str], None]) -> Iterator[LocalStack]:
    """Start a stack of which only Airflow's API server, Postgres, and Kafka continue to run."""
    with (
        tempfile.TemporaryDirectory(prefix="dags-") as folder,
        LocalStack(
            airflow=True, dags_folder=Path(folder), environment={TOKEN_VARIABLE: TOKEN}, name="bench-pages", say=say
        ) as stack,
    ):
        for component in stack.airflow.components:
            if component is not stack.airflow.api_server:
                component.stop()
        yield stack


class Visitor:
    """One browser that looks at pages at random; two with the same installation look at the same pages.

    Args:
        server: address of the server.
        connection: to the database, to know what can be looked at.
        rows: how many work orders there are.
        installation: what else there is.
    """

    def __init__(self, server: str, connection: Connection, rows: int, installation: Installation) -> None:
        self._client = httpx.Client(base_url=server, timeout=_SECONDS, trust_env=False)
        self._chance = Random(rows)
        self._installation = installation
        newest = newest_time(connection)
        self._questions = list(search.questions(rows, self._chance, newest).values())
        times = [newest - self._chance.random() * rows * many.BETWEEN for _ in range(_SAMPLE)]
        found = connection.execute(_SOME_WORK_ORDERS, [[first_id(time) for time in times]]).fetchall()
        self._work_orders = [id_ for id_, _ in found]
        self._runs = [run for _, run in found if run is not None]
        self._batches = connection.execute(_NEWEST_BATCHES, [_SAMPLE]).fetchall()
        self.kinds: Mapping[str, Callable[[], Request]] = {
            "overview": lambda: _get("/"),
            "overview, updated": lambda: _get("/", _UPDATE),
            "Kafka trigger": lambda: _get(f"/kafka/{self._pick(installation.triggers)}"),
            "Kafka trigger, updated": lambda: _get(f"/kafka/{self._pick(installation.triggers)}", _UPDATE),
            "work orders": lambda: _get(f"/work-orders?{self._question()}"),
            "work orders, the next page": self._next_page,
            "work order": lambda: _get(f"/work-orders/{self._pick(self._work_orders)}"),
            "work order with a large input": lambda: _get(f"/work-orders/{installation.large}"),
            "run": lambda: _get(f"/runs/{self._pick(self._runs)}"),
            "workflow": lambda: _get(f"/workflows/{self._pick(installation.workflows)}"),
            "outbox": lambda: _get("/outbox"),
            "jobs": lambda: _get("/bulk"),
            "tab of a Dag run": lambda: _get(
                "/dag-run?dag_id={}_ingest&run_id=batch_{}".format(*self._pick(self._batches))
            ),
            "selection to confirm": lambda: _get(f"/bulk/new?kind=rerun&{self._question(all_times=False)}"),
            "/workorders/metrics": lambda: _get("/metrics", {"authorization": f"Bearer {TOKEN}"}),
        }
        """By the kind of a page: returns the next request of that kind."""

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def milliseconds(self, request: Request) -> float:
        """Ask for a page, and return the time until all of it has come.

        Raises:
            RuntimeError: the answer is an error.
        """
        path, headers = request
        begun = time.perf_counter()
        answer = self._client.get(f"{_ROOT}{path}", headers=headers)
        taken = (time.perf_counter() - begun) * 1000
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text[-2000:]}")
        return taken

    def warm_up(self) -> None:
        """Ask each kind of search once, so that none of them fails or is cold later.

        Raises:
            RuntimeError: an answer is an error.
        """
        for question in self._questions:
            self.milliseconds(_get(f"/work-orders?{urlencode(as_fields(question()))}"))

    def _next_page(self) -> Request:
        """Return what the link to older work orders leads to, of the next search that has one."""
        while True:
            page = self._client.get(f"{_ROOT}/work-orders?{self._question()}").text
            if link := _OLDER.search(page):
                return _get(unescape(link[1]))

    def _pick(self, what: Sequence[Any]) -> Any:
        return self._chance.choice(what)

    def _question(self, *, all_times: bool = True) -> str:
        """Return the query of a random search; without a time, it is for the last seven days or for all times."""
        fields = as_fields(self._pick(self._questions)())
        if all_times and self._pick((True, False)):
            fields.setdefault("since", "all")
        return urlencode(fields)


def newest_time(connection: Connection) -> datetime:
    """Return when the newest work order was created."""
    return work_orders.list_work_orders(connection, Filter(), limit=1)[0].created_at


def as_fields(wanted: Filter) -> dict[str, str]:
    """Return a filter as the fields of the page's address, which are the command line's options too."""
    return {"rejection" if name == "reason" else name: str(value) for name, value in wanted.to_json().items()}


def seconds_to_read_metrics(url: str, rounds: int) -> list[float]:
    """Return how long all queries of the metrics take."""
    with connect(url, autocommit=True, application_name="benchmark") as connection:
        return [_seconds(lambda: take_samples(connection)) for _ in range(rounds)]


def _seconds(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def _get(path: str, headers: Mapping[str, str] | None = None) -> Request:
    return path, headers or {}


_NEWEST_BATCHES: Final = """
SELECT triggers.name, batches.id
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
ORDER BY batches.id DESC
LIMIT %s
"""
_SOME_WORK_ORDERS: Final = """
SELECT work_orders.id, newest.id
FROM unnest(%s::uuid[]) AS given (id)
CROSS JOIN LATERAL (
    SELECT id FROM workorders.work_orders WHERE work_orders.id >= given.id ORDER BY id LIMIT 1
) AS work_orders
LEFT JOIN LATERAL (
    SELECT id FROM workorders.runs WHERE work_order_id = work_orders.id ORDER BY attempt DESC LIMIT 1
) AS newest ON true
"""
