"""The endpoints `/metrics` and `/health`, as a router of FastAPI. Who mounts it names the database and the token."""

import hmac
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import orjson
import psycopg
from fastapi import APIRouter, Header, Response
from prometheus_client import CONTENT_TYPE_LATEST

from workorders.core.environment import FILE_SUFFIX
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.metrics import Sample
from workorders.core.postgres.connection import connect
from workorders.monitoring import health, prometheus, snapshot
from workorders.monitoring.problems import Facts, find_problems

_LOG = logging.getLogger(__name__)

TOKEN_VARIABLE: Final = "WORKORDERS_METRICS_TOKEN"  # noqa: S105 - a name
"""The token that callers of `/metrics` send; with FILE_SUFFIX, a file that holds it."""

_SESSION: Final = {"statement_timeout": "10s", "lock_timeout": "2s"}
_KEEP_SECONDS: Final = 5.0
"""Minimum time between two reads of the database, however many callers there are."""
_WAIT_SECONDS: Final = 2.0
"""Callers that come at the same time wait no longer for the one that reads: threads of the API server are few."""

Authorization = Annotated[str | None, Header()]


class NotAnsweredError(Exception):
    """A request gets no figures; the text tells the caller why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LatestSamples:
    """The metrics of a database, read when they are requested and kept for some seconds.

    Args:
        url: returns the libpq connection string.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, url: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: Sequence[Sample] = ()
        self._until = float("-inf")

    def get(self) -> Sequence[Sample]:
        """Return all samples.

        Raises:
            NotAnsweredError: the database failed, or answers slowly.
        """
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            raise NotAnsweredError(503, "Another request still waits for the database, so it was not asked again.")
        try:
            if self._clock() >= self._until:
                self._samples = self._read()
                self._until = self._clock() + _KEEP_SECONDS
            return self._samples
        finally:
            self._lock.release()

    def _read(self) -> Sequence[Sample]:
        try:
            with connect(
                self._url(), application_name="workorders metrics", autocommit=True, session=_SESSION
            ) as connection:
                return snapshot.take(connection)
        except (psycopg.Error, WorkOrdersError) as error:
            _LOG.error("The metrics cannot be read: %s", one_line(error))
            reason = "The database of the work orders failed. Its error is in the log of the API server."
            raise NotAnsweredError(503, reason) from error


def make_router(samples: LatestSamples, token: Callable[[], str | None]) -> APIRouter:
    """Return the router.

    Args:
        samples: the metrics.
        token: returns the token of `/metrics`; None if none is set, so that everybody is refused.
    """
    router = APIRouter()

    @router.get("/metrics")
    def metrics(authorization: Authorization = None) -> Response:
        """Return all metrics in Prometheus' text format."""
        try:
            _require_token(authorization, token())
            text = prometheus.render(snapshot.readings(), samples.get())
        except NotAnsweredError as error:
            return _refusal(error)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @router.get("/health")
    def state(authorization: Authorization = None) -> Response:
        """Return 200 if nothing is wrong, else 503; and to a caller with the token also what is wrong."""
        try:
            found = samples.get()
        except NotAnsweredError as error:
            return _refusal(error)
        # Another login is no reason to refuse: a proxy may add one, and Airflow does where everybody is an admin.
        return _health(found, with_details=_has_token(authorization, token()))

    return router


def _health(samples: Sequence[Sample], *, with_details: bool) -> Response:
    wrong = [str(problem) for problem in find_problems(Facts(samples=samples))]
    answer: dict[str, Any] = {"status": "failing" if wrong else "ok"}
    if with_details:
        answer |= {"problems": wrong, "triggers": [asdict(trigger) for trigger in health.trigger_health(samples)]}
    return Response(orjson.dumps(answer), 503 if wrong else 200, media_type="application/json")


def _refusal(error: NotAnsweredError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None  # noqa: PLR2004 - as HTTP requires
    return Response(f"{error}\n", error.status, headers, media_type="text/plain")


def _require_token(given: str | None, expected: str | None) -> None:
    """Refuse a caller without the token.

    Raises:
        NotAnsweredError: none is set (403), or the caller's is another one (401).
    """
    if not expected:
        raise NotAnsweredError(
            403,
            f"No token is set, so no one may read the metrics. Set {TOKEN_VARIABLE} or {TOKEN_VARIABLE}{FILE_SUFFIX} "
            f"for the API server.",
        )
    if not _has_token(given, expected):
        raise NotAnsweredError(401, "The token is missing or wrong.")


def _has_token(given: str | None, expected: str | None) -> bool:
    scheme, _, value = (given or "").partition(" ")
    # In constant time, so that no one can find out the token byte by byte.
    is_equal = hmac.compare_digest(value.strip().encode(), (expected or "").encode())
    return bool(expected) and scheme.lower() == "bearer" and is_equal
