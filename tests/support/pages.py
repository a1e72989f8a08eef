"""The pages without Airflow: their application below its usual path, for a user whose rights a test chooses."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import uvicorn
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import FastAPI, Response
from starlette.testclient import TestClient

from local_stack.ports import LOOPBACK, accepts_connections, free_port
from support.eventually import eventually
from workorders.pages import forms
from workorders.pages.access import Right, Viewer, current_viewer
from workorders.pages.app import make_app
from workorders.pages.site import Site

OWN = {"sec-fetch-site": "same-origin"}
"""The header with which a browser sends a form of a page."""


@dataclass(frozen=True)
class Change:
    """An entry of Airflow's audit log."""

    event: str
    dag_ids: Sequence[str]
    user: str
    details: Mapping[str, Any]


class StubUser(BaseUser):
    """A user of no auth manager."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_id(self) -> str:
        """Return the name."""
        return self._name

    def get_name(self) -> str:
        """Return the name."""
        return self._name


@dataclass(frozen=True)
class StubViewer(Viewer):
    """A user with every right to the Dags that a test does not refuse."""

    refused: Callable[[Right, str], bool] = field(default=lambda _, __: False)

    def may(self, right: Right, *dag_ids: str) -> bool:
        """Return whether the test refuses none of them."""
        return not any(self.refused(right, dag_id) for dag_id in dag_ids)


def ada(refused: Callable[[Right, str], bool] = lambda _, __: False) -> StubViewer:
    """Return the user of most tests."""
    return StubViewer(StubUser("ada"), refused)


def served(site: Site, viewer: Viewer | None = None) -> FastAPI:
    """Return a server with the pages at `/workorders`, as Airflow mounts them."""
    pages = make_app(site)
    pages.dependency_overrides[current_viewer] = lambda: viewer or ada()
    server = FastAPI()
    server.mount("/workorders", pages)
    # A browser asks for it when a document names no icon, or is left early; Airflow answers that as well.
    server.add_api_route("/favicon.ico", lambda: Response(status_code=204))
    return server


def browser_of(
    app: FastAPI, login: str = "", *, follow_redirects: bool = False, raise_server_exceptions: bool = True
) -> TestClient:
    """Return what sends forms as a browser does, with a login of Airflow if there is one."""
    return TestClient(
        app,
        cookies={"_token": login} if login else {},
        headers=OWN,
        follow_redirects=follow_redirects,
        raise_server_exceptions=raise_server_exceptions,
    )


def site(
    database_url: str,
    kafka_settings: Mapping[str, Any],
    *,
    paused: Collection[str] = (),
    record_change: Callable[[Change], None] = lambda _: None,
) -> Site:
    """Return the site of the pages of a test: the sources of their facts, and the record of their changes."""
    return Site(
        lambda: database_url,
        lambda _: kafka_settings,
        lambda dag_ids: {dag_id: dag_id in paused for dag_id in dag_ids},
        "the key of a test",
        lambda event, dag_ids, user, extra: record_change(Change(event, dag_ids, user, json.loads(extra))),
    )


def listed_ids(page: str) -> list[str]:
    """Return the ids of the work orders that the page of a search lists, in its order."""
    return re.findall(r'name="selected" value="([^"]+)"', page)


def form_token(site: Site, user: str) -> str:
    """Return a valid token of a user, as a page has it."""
    return forms.new_token(site.form_key, user)


@contextmanager
def running(app: FastAPI, port: int | None = None) -> Iterator[str]:
    """Serve an application on this machine, and yield its address."""
    chosen = port or free_port()
    server = uvicorn.Server(uvicorn.Config(app, host=LOOPBACK, port=chosen, log_level="warning"))
    thread = Thread(target=server.run)
    thread.start()
    eventually(lambda: accepts_connections(chosen), seconds=60, what="the server of the pages")
    try:
        yield f"http://{LOOPBACK}:{chosen}"
    finally:
        server.should_exit = True
        thread.join()
