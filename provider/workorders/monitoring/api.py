"""The endpoints `/metrics` and `/health`, as a router of FastAPI. Who mounts it names the database and the token."""

import hmac
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import orjson
import psycopg
from fastapi import APIRouter, Header, Response
from prometheus_client import CONTENT_TYPE_LATEST

from workorders.core.environment import FILE_SUFFIX, find_secret
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line
from workorders.core.kept_value import KeptValue
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
_FAILURE_SECONDS: Final = 5.0

Authorization = Annotated[str | None, Header()]


class NotAnsweredError(Exception):
    """A request gets no figures; the text tells the caller why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answers:
    """What the endpoints answer for some seconds."""

    metrics: bytes
    problems: Sequence[str]
    triggers: Sequence[health.TriggerHealth]

    @staticmethod
    def of(samples: Sequence[Sample]) -> "Answers":
        """Return the answers by the metrics of a database."""
        problems = [str(problem) for problem in find_problems(Facts(samples=samples))]
        return Answers(prometheus.render(snapshot.readings(), samples), problems, health.trigger_health(samples))


def read_samples(url: Callable[[], str]) -> Sequence[Sample]:
    """Read the metrics of a database; a failure is logged."""
    try:
        with connect(url(), application_name="workorders metrics", autocommit=True, session=_SESSION) as connection:
            return snapshot.take(connection)
    except (psycopg.Error, WorkOrdersError) as error:
        _LOG.error("The metrics cannot be read: %s", one_line(error))
        raise


def make_router(samples: Callable[[], Sequence[Sample]]) -> APIRouter:
    """Return the router. `samples` may block: no caller occupies a shared thread. Without a token, all are refused."""
    router = APIRouter()
    kept_answers = KeptValue(
        lambda: Answers.of(samples()), time.monotonic, seconds=_KEEP_SECONDS, failure_seconds=_FAILURE_SECONDS
    )

    async def answers() -> Answers:
        try:
            return await kept_answers.get()
        except Exception as error:
            reason = "The database of the work orders failed. Its error is in the log of the API server."
            raise NotAnsweredError(503, reason) from error

    @router.get("/metrics")
    async def metrics(authorization: Authorization = None) -> Response:
        """Return all metrics in Prometheus' text format."""
        try:
            _require_token(authorization)
            return Response((await answers()).metrics, media_type=CONTENT_TYPE_LATEST)
        except NotAnsweredError as error:
            return _refusal(error)

    @router.get("/health")
    async def state(authorization: Authorization = None) -> Response:
        """Return 200 if nothing is wrong, else 503; and to a caller with the token also what is wrong."""
        try:
            found = await answers()
        except NotAnsweredError as error:
            return _refusal(error)
        answer: dict[str, Any] = {"status": "failing" if found.problems else "ok"}
        # Another login is no reason to refuse: a proxy may add one, and Airflow does where everybody is an admin.
        with suppress(NotAnsweredError):
            _require_token(authorization)
            answer |= {"problems": found.problems, "triggers": [asdict(trigger) for trigger in found.triggers]}
        return Response(orjson.dumps(answer), 503 if found.problems else 200, media_type="application/json")

    return router


def _require_token(given: str | None) -> None:
    scheme, _, value = (given or "").partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        raise NotAnsweredError(401, "The token is missing or wrong.")
    try:
        expected = find_secret(TOKEN_VARIABLE)
    except ConfigurationError as error:
        _LOG.error("%s", one_line(error))
        raise NotAnsweredError(503, "The token of the metrics cannot be read, so no one may read them.") from error
    if not expected:
        raise NotAnsweredError(
            403,
            f"No token is set, so no one may read the metrics. Set {TOKEN_VARIABLE} or {TOKEN_VARIABLE}{FILE_SUFFIX} "
            "for the API server.",
        )
    # In constant time, so that no one can find out the token byte by byte.
    if not hmac.compare_digest(value.strip().encode(), expected.encode()):
        raise NotAnsweredError(401, "The token is missing or wrong.")


def _refusal(error: NotAnsweredError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None  # noqa: PLR2004 - as HTTP requires
    return Response(f"{error}\n", error.status, headers, media_type="text/plain")
