"""What the package adds to Airflow in addition to Dags: pages in its menu, and applications of trigger types.

Every component of Airflow loads plugins; only the API server serves, and only there is an application worth importing.
So each application is made when its first request comes.
"""

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from workorders.airflow.page_links import ROOT, VIEW, airflow_path

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

WEB_APPS_GROUP = "workorders.web_apps"
"""Entry point group in which a package announces a function that makes an application; the name of the entry point is
its path below `/workorders/`. Airflow does not authenticate its callers: the application must."""

PAGES_GROUP = "workorders.pages"
"""Entry point group of the function that makes the application of the pages, at `/workorders` itself."""


class LazyApp:
    """An ASGI application that is made when it is first called."""

    def __init__(self, point: EntryPoint) -> None:
        self._point = point

    @cached_property
    def _app(self) -> "ASGIApp":
        app: ASGIApp = self._point.load()()
        return app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer, as ASGI has it."""
        await self._app(scope, receive, send)


def web_apps() -> list[dict[str, Any]]:
    """Return what Airflow mounts, in the form of its plugins."""
    below = [
        {"app": LazyApp(point), "url_prefix": f"{ROOT}/{point.name}", "name": f"Work orders: {point.name}"}
        for point in sorted(entry_points(group=WEB_APPS_GROUP), key=lambda point: point.name)
    ]
    # Airflow asks the first application whose prefix matches, so the pages come after what is below them.
    pages = [
        {"app": LazyApp(point), "url_prefix": ROOT, "name": "Work orders: pages"}
        for point in entry_points(group=PAGES_GROUP)
    ]
    return below + pages


def views() -> list[dict[str, Any]]:
    """Return the entries of Airflow's menu, and the tab on its Dag runs, in the form of its plugins."""
    airflow = airflow_path()
    static = f"{airflow}{ROOT}/static"
    shown = {"name": "Work orders", "icon": f"{static}/icon.svg", "icon_dark_mode": f"{static}/icon-dark.svg"}
    return [
        {
            **shown,
            # With the slash: without it Airflow would show itself.
            "href": f"{airflow}{ROOT}/",
            "destination": "nav",
            "url_route": VIEW,
            "nav_top_level": True,
        },
        {
            **shown,
            # In the query: an id may contain a slash.
            "href": f"{airflow}{ROOT}/dag-run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "workorders-batch",
        },
    ]


class WorkOrdersPlugin(AirflowPlugin):
    """Announces the package to every component of Airflow, which lists it under Admin, Plugins."""

    name = "workorders"
    fastapi_apps: list[Any] = web_apps()
    external_views: list[Any] = views()
