"""Addresses at which Airflow shows the pages of work orders: for its menu, the texts of Dags, and buttons of tasks."""

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

ROOT: Final = "/workorders"
"""Path of the pages below that of Airflow."""
VIEW: Final = "workorders"
"""Name of the view in Airflow's own paths."""


def airflow_path() -> str:
    """Return the path of Airflow on its host, without a slash at its end."""
    return urlsplit(_base_url()).path.rstrip("/")


def page_path(*parts: str, **query: str) -> str:
    """Return the path at which Airflow shows a page, with its query; without parts, the overview."""
    base = airflow_path()
    page = "/".join(quote(part, safe="") for part in parts)
    path = f"{base}/plugin/{VIEW}{base}{ROOT}/{page}"
    return f"{path}?{urlencode(query)}" if query else path


def page_address(*parts: str, **query: str) -> str:
    """Return the same with Airflow's host, if its configuration names it."""
    url = urlsplit(_base_url())
    host = f"{url.scheme}://{url.netloc}" if url.netloc else ""
    return host + page_path(*parts, **query)


class PageLink(BaseOperatorLink):
    """A button of a task that leads to the page of what the task works on: the operator's `page`."""

    name = ""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_link(self, operator: Any, *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the operator's page."""
        return page_address(*operator.page)


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="/"))
