"""The FastAPI application of the pages; Airflow's API server mounts it at `/workorders`."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import psycopg
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import error_code
from workorders.pages import (
    dag_run,
    jobs,
    kafka_trigger,
    last_audit,
    outbox,
    overview,
    resolve,
    static_files,
    work_order,
    work_orders,
    workflow,
)
from workorders.pages.downloads import Downloads
from workorders.pages.job_threads import JobThreads
from workorders.pages.problems import NotFoundError, PageRefusedError
from workorders.pages.rendering import Place, render
from workorders.pages.site import Site

_LOG = logging.getLogger(__name__)

ROUTERS: Final = (
    static_files.router,
    overview.router,
    kafka_trigger.router,
    resolve.router,
    work_orders.router,
    work_order.router,
    jobs.router,
    workflow.router,
    outbox.router,
    last_audit.router,
    dag_run.router,
)
"""Everything that is served. A router without a page, such as one for machines, belongs here too."""

_METHOD_NOT_ALLOWED: Final = 405

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer that has none of its own: pages run no script but ours, and are shown inside Airflow only."""


def make_app(site: Site) -> FastAPI:
    """Return the application. It has no documentation pages, because everybody could read them."""
    app = FastAPI(title="Work orders", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.site = site
    app.state.job_threads = JobThreads(site)
    app.state.downloads = Downloads(site)
    for router in ROUTERS:
        app.include_router(router)
    app.middleware("http")(_with_headers)
    app.exception_handler(PageRefusedError)(_refused)
    app.exception_handler(RequestValidationError)(_wrong_input)
    app.exception_handler(HTTPException)(_by_framework)
    app.exception_handler(WorkOrdersError)(_failed)
    app.exception_handler(psycopg.Error)(_database_failed)
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, PageRefusedError)  # noqa: S101 - only this kind comes here
    return _problem(request, error.status, error.title, str(error))


async def _wrong_input(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    names = ", ".join(sorted({str(found["loc"][-1]) for found in error.errors()}))
    sentence = f"Nothing was read or changed: {names} has a wrong form. Go back and correct it."
    return _problem(request, 422, "Wrong input", sentence)


async def _by_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    if error.status_code == NotFoundError.status:
        return _problem(request, 404, NotFoundError.title, "There is no page at this address.")
    if error.status_code == _METHOD_NOT_ALLOWED and request.method == "GET":
        # The address of a form that was sent: a person went there by the address bar, or shared it.
        return RedirectResponse(request.url.path.rpartition("/")[0], 303)
    return _problem(request, error.status_code, "Refused", f"Nothing was read or changed: {error.detail}.")


async def _failed(request: Request, error: Exception) -> Response:
    return _problem(request, 404 if isinstance(error, LookupError) else 400, "Not done", one_line(error))


async def _database_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, psycopg.Error)  # noqa: S101 - as above
    if isinstance(error, psycopg.DataError):
        # Such as a NUL in a name, or a number that no id reaches.
        sentence = "Nothing was read or changed: the database can store no such value. Go back and correct it."
        return _problem(request, 422, "Wrong input", sentence)
    _LOG.error("A page could not be made: %s", one_line(error))
    if isinstance(error, psycopg.errors.QueryCanceled):
        sentence = (
            "The question took too long, so it was stopped; nothing was changed. Ask about less, such as since=24h."
        )
        return _problem(request, 503, "Too slow", sentence)
    # A commit whose answer is lost may have happened.
    outcome, advice = (
        ("nothing was changed", "Try again.")
        if request.method == "GET"
        else ("whether anything was changed is not known", "Look at what you changed before you do it again.")
    )
    sentence = (
        f"The database of the work orders does not answer as it should ({error_code(error)}); {outcome}. "
        f"Its error is in the log of Airflow's API server. {advice}"
    )
    return _problem(request, 503, "Database unavailable", sentence)


def _problem(request: Request, status: int, title: str, sentence: str) -> Response:
    return render(
        request, "problem.html", code=status, title=title, sentence=sentence, retry=_page_to_try_again(request)
    )


def _page_to_try_again(request: Request) -> str | None:
    """Return the path of the page that failed, or of the one whose form was refused; None if it is not known."""
    is_page = request.method == "GET"
    url = urlsplit(str(request.url) if is_page else request.headers.get("referer", ""))
    if not (is_page or url.path.startswith(f"{Place.of(request).pages}/")):
        return None
    return f"{url.path}?{url.query}" if url.query else url.path
