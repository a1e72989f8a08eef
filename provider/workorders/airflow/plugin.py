"""What the package adds to Airflow in addition to Dags: applications of trigger types in the API server.

Every component of Airflow loads plugins; only the API server serves, and only there is an application worth importing.
So each application is made when its first request comes.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from airflow.plugins_manager import AirflowPlugin

WEB_APPS_GROUP = "workorders.web_apps"
"""Entry point group in which a package announces a function that makes an application; the name of the entry point is
its path below `/workorders/`. Airflow does not authenticate its callers: the application must."""

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LazyApp:
    """An ASGI application that is made when it is first called.

    Args:
        point: names the function that makes it.
    """

    def __init__(self, point: EntryPoint) -> None:
        self._point = point
        self._app: Callable[[MutableMapping[str, Any], _Receive, _Send], Awaitable[None]] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer, as ASGI has it."""
        if self._app is None:
            self._app = self._point.load()()
        await self._app(scope, receive, send)


def web_apps() -> list[dict[str, Any]]:
    """Return what Airflow mounts, in the form of its plugins."""
    return [
        {"app": LazyApp(point), "url_prefix": f"/workorders/{point.name}", "name": f"Work orders: {point.name}"}
        for point in sorted(entry_points(group=WEB_APPS_GROUP), key=lambda point: point.name)
    ]


class WorkOrdersPlugin(AirflowPlugin):
    """Announces the package to every component of Airflow, which lists it under Admin, Plugins."""

    name = "workorders"
    fastapi_apps: list[Any] = web_apps()
