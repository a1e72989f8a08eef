"""What Airflow mounts, and when it is made."""

import asyncio
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from workorders.airflow.plugin import LazyApp, WorkOrdersPlugin, views


class Made:
    """Counts how often it was made."""

    count: ClassVar[int] = 0


def application() -> ASGIApp:
    Made.count += 1
    return PlainTextResponse("here")


def test_the_webhooks_are_below_workorders_and_announce_themselves_without_being_imported() -> None:
    (hooks,) = [app for app in WorkOrdersPlugin.fastapi_apps if app["url_prefix"] == "/workorders/webhooks"]
    assert isinstance(hooks["app"], LazyApp)
    assert "_app" not in vars(hooks["app"])


def test_the_pages_come_after_what_is_below_their_path_because_the_first_that_fits_answers() -> None:
    prefixes = [app["url_prefix"] for app in WorkOrdersPlugin.fastapi_apps]
    assert prefixes[-1] == "/workorders"
    assert all(prefix.startswith("/workorders/") for prefix in prefixes[:-1])


def test_airflows_menu_leads_to_the_pages_also_below_a_base_path(monkeypatch: Any) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    (view,) = [view for view in views() if view["destination"] == "nav"]
    assert view["href"] == "/airflow/workorders/"
    assert view["url_route"] == "workorders"


def test_an_application_is_made_when_the_first_request_comes_and_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda _: application)
    lazy = LazyApp(EntryPoint("test", "nowhere:application", "workorders.web_apps"))

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(lazy), base_url="http://test") as client:
            return [(await client.get("/")).text for _ in range(3)]

    assert Made.count == 0
    assert asyncio.run(ask()) == ["here"] * 3
    assert Made.count == 1
