"""The endpoint `/metrics` for Prometheus, as a router of FastAPI. Who mounts it names the database."""

import hmac
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final

import psycopg
from fastapi import APIRouter, Header, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from workorders.core.environment import FILE_SUFFIX, find_secret
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line
from workorders.core.kept_value import KeptValue
from workorders.core.metrics import Metric, Reading, Sample, readings, take_samples
from workorders.core.postgres.connection import connect

_LOG = logging.getLogger(__name__)

TOKEN_VARIABLE: Final = "WORKORDERS_METRICS_TOKEN"  # noqa: S105 - a name
"""The token that callers of `/metrics` send; with FILE_SUFFIX, a file that holds it."""

_SESSION: Final = {"statement_timeout": "10s", "lock_timeout": "2s"}
_KEEP_SECONDS: Final = 5.0
"""Minimum time between two reads of the database, however many callers there are."""
_UNITS: Final = {"s": "seconds", "By": "bytes"}

Authorization = Annotated[str | None, Header()]


def read_samples(url: Callable[[], str]) -> Sequence[Sample]:
    """Read the metrics of a database; a failure is logged."""
    try:
        with connect(url(), application_name="workorders metrics", autocommit=True, session=_SESSION) as connection:
            return take_samples(connection)
    except (psycopg.Error, WorkOrdersError) as error:
        _LOG.error("The metrics cannot be read: %s", one_line(error))
        raise


def make_router(samples: Callable[[], Sequence[Sample]]) -> APIRouter:
    """Return the router. `samples` may block: no caller occupies a shared thread. Without a token, all are refused."""
    router = APIRouter()
    kept = KeptValue(
        lambda: render(readings(), samples()),
        time.monotonic,
        seconds=_KEEP_SECONDS,
        failure_seconds=_KEEP_SECONDS,
    )

    @router.get("/metrics")
    async def metrics(authorization: Authorization = None) -> Response:
        """Return all metrics in Prometheus' text format."""
        if (refusal := _refuse_stranger(authorization)) is not None:
            return refusal
        try:
            return Response(await kept.get(), media_type=CONTENT_TYPE_LATEST)
        except Exception:  # noqa: BLE001 - it is in the log
            return _refusal(503, "The database of the work orders failed. Its error is in the log of the API server.")

    return router


def _refuse_stranger(given: str | None) -> Response | None:
    """Return the answer to a caller without the token; None for the one who has it."""
    scheme, _, value = (given or "").partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        return _refusal(401, "The token is missing or wrong.")
    try:
        expected = find_secret(TOKEN_VARIABLE)
    except ConfigurationError as error:
        _LOG.error("%s", one_line(error))
        return _refusal(503, "The token of the metrics cannot be read, so no one may read them.")
    if not expected:
        return _refusal(
            403,
            f"No token is set, so no one may read the metrics. Set {TOKEN_VARIABLE} or {TOKEN_VARIABLE}{FILE_SUFFIX} "
            "for the API server.",
        )
    # In constant time, so that no one can find out the token byte by byte.
    is_right = hmac.compare_digest(value.strip().encode(), expected.encode())
    return None if is_right else _refusal(401, "The token is missing or wrong.")


def _refusal(status: int, reason: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004 - as HTTP requires
    return Response(f"{reason}\n", status, headers, media_type="text/plain")


def prometheus_name(metric: Metric) -> str:
    """Return the name of a metric's series, as OpenTelemetry's rules derive it.

    Dots become underscores; a unit of measure and, for a counter, `total` are appended.
    """
    total = "total" if metric.kind == "counter" else None
    return "_".join(filter(None, [metric.name.replace(".", "_"), _UNITS.get(metric.unit), total]))


def render(readings: Iterable[Reading], samples: Iterable[Sample]) -> bytes:
    """Return the text of all samples. A metric without a value has its head only."""
    return generate_latest(_Samples(readings, samples))


class _Samples(Collector):
    """The samples of one scrape, by metric; a registry of them alone."""

    def __init__(self, readings: Iterable[Reading], samples: Iterable[Sample]) -> None:
        self._families = {metric: _family(metric, reading.labels) for reading in readings for metric in reading.metrics}
        for sample in samples:
            self._families[sample.metric].add_metric([value for _, value in sample.labels], sample.value)

    def collect(self) -> Iterator[Family]:
        """Give what is written."""
        yield from self._families.values()


def _family(metric: Metric, labels: Sequence[str]) -> CounterMetricFamily | GaugeMetricFamily:
    family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return family(prometheus_name(metric), metric.meaning, labels=labels)
