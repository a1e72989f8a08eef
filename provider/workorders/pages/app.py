"""The FastAPI application of the pages; Airflow's API server mounts it at `/workorders`."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import error_code
from workorders.pages import audit, bulk, kafka_trigger, outbox, overview, resolve, work_order, work_orders, workflow
from workorders.pages.access import OF_PAGES
from workorders.pages.rendering import Place, render
from workorders.pages.site import Site

_LOG = logging.getLogger(__name__)

PAGES: Final[Mapping[str, Callable[..., Response]]] = {
    "/": overview.page,
    "/kafka/{name}": kafka_trigger.page,
    "/kafka/{name}/resolve": resolve.page,
    "/dag-run": kafka_trigger.tab,
    "/workflows/{name}": workflow.page,
    "/work-orders": work_orders.page,
    "/work-orders/{id_}": work_order.page,
    "/work-orders/{id_}/{part}": work_order.download,
    "/runs/{id_}": work_order.run_page,
    "/runs/{id_}/{part}": work_order.run_download,
    "/bulk": bulk.list_page,
    "/bulk/new": bulk.form_page,
    "/bulk/{number}": bulk.page,
    "/outbox": outbox.page,
    "/outbox/holds/{number}": outbox.hold_page,
    "/audit": audit.page,
}
ACTIONS: Final[Mapping[str, Callable[..., Response]]] = {
    "/kafka/{name}/resolve": resolve.resolve,
    "/bulk/new": bulk.begin,
    "/bulk/{number}/cancel": bulk.cancel,
    "/outbox/holds/{number}/release": outbox.release,
    "/outbox/holds/{number}/purge": outbox.purge,
}

TITLES: Final[Mapping[int, str]] = {
    400: "Not done",
    401: "Your session has ended",
    403: "Not allowed",
    404: "Not found",
    409: "Changed meanwhile",
    422: "Wrong input",
    503: "Busy",
    504: "Not known",
}
"""Of the pages that say why something is refused, by their status."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer without one: pages run no script but ours, and are shown inside Airflow only."""


def make_app(site: Site) -> FastAPI:
    """Return the application. It has no documentation pages, because everybody could read them."""
    app = FastAPI(title="Work orders", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.site = site
    for method, served in (("GET", PAGES), ("POST", ACTIONS)):
        for path, function in served.items():
            app.add_api_route(path, _in_thread(function), methods=[method])
    # Nothing in them is secret, so anyone may read them.
    app.mount("/static", StaticFiles(packages=[("workorders.pages", "static")]))
    app.middleware("http")(_with_headers)
    for kind in (WorkOrdersError, RequestValidationError, HTTPException, psycopg.Error):
        app.exception_handler(kind)(_explain)
    return app


def _in_thread(function: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    @wraps(function)
    async def run(**given: Any) -> Response:
        return await run_sync(partial(function, **given), limiter=OF_PAGES)

    return run


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    # A browser keeps files, and asks for them again by their ETag, so that an upgrade counts at once.
    files = {"Cache-Control": "no-cache"} if "etag" in response.headers else {}
    for name, value in (HEADERS | files).items():
        response.headers.setdefault(name, value)
    return response


async def _explain(request: Request, error: Exception) -> Response:
    """Answer by a page with what failed, and what a person can do."""
    if request.method == "GET" and getattr(error, "status_code", 0) == HTTPStatus.METHOD_NOT_ALLOWED:
        # The address of a form that was sent: a person went there by the address bar, or shared it.
        return RedirectResponse(request.url.path.rpartition("/")[0], 303)
    status, title, sentence = _problem(request.method, error)
    return render(
        request, "problem.html", code=status, title=title, sentence=sentence, retry=_page_to_try_again(request)
    )


def _problem(method: str, error: Exception) -> tuple[int, str, str]:
    """Return the status, the title, and the sentence of a failure."""
    if isinstance(error, WorkOrdersError):
        status = HTTPStatus.NOT_FOUND if isinstance(error, LookupError) else HTTPStatus.BAD_REQUEST
        return status, TITLES[status], one_line(error)
    if isinstance(error, RequestValidationError):
        names = ", ".join(sorted({str(found["loc"][-1]) for found in error.errors()}))
        return 422, TITLES[422], f"Nothing was read or changed: {names} has a wrong form. Go back and correct it."
    if isinstance(error, HTTPException):
        status, sentence = HTTPStatus(error.status_code), error.detail
        if sentence == status.phrase:  # the framework refuses it
            what = "There is no such page" if status == HTTPStatus.NOT_FOUND else sentence
            sentence = f"{what}. Nothing was read or changed."
        return status, TITLES.get(status, "Refused"), sentence
    if isinstance(error, psycopg.Error):
        return _database_problem(method, error)
    raise error


def _database_problem(method: str, error: psycopg.Error) -> tuple[int, str, str]:
    if isinstance(error, psycopg.DataError):
        # Such as a NUL in a name, or a number that no id reaches.
        sentence = "Nothing was read or changed: the database can store no such value. Go back and correct it."
        return 422, TITLES[422], sentence
    _LOG.error("A page could not be made: %s", one_line(error))
    if isinstance(error, psycopg.errors.QueryCanceled):
        sentence = (
            "The question took too long, so it was stopped; nothing was changed. Ask about less, such as since=24h."
        )
        return 503, "Too slow", sentence
    # A commit whose answer is lost may have happened.
    outcome, advice = (
        ("nothing was changed", "Try again.")
        if method == "GET"
        else ("whether anything was changed is not known", "Look at what you changed before you do it again.")
    )
    sentence = (
        f"The database of the work orders does not answer as it should ({error_code(error)}); {outcome}. "
        f"Its error is in the log of Airflow's API server. {advice}"
    )
    return 503, "Database unavailable", sentence


def _page_to_try_again(request: Request) -> str | None:
    """Return the path of the page that failed, or of the one whose form was refused; None if it is not known."""
    is_page = request.method == "GET"
    url = urlsplit(str(request.url) if is_page else request.headers.get("referer", ""))
    if not (is_page or url.path.startswith(f"{Place.of(request).pages}/")):
        return None
    return f"{url.path}?{url.query}" if url.query else url.path
