"""Addresses at which Airflow shows the pages of work orders: for its menu, the texts of Dags, and buttons of tasks."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

ROOT: Final = "/workorders"
"""Path of the pages below that of Airflow."""
VIEW: Final = "workorders"
"""Name of the view in Airflow's own paths."""


def airflow_path() -> str:
    """Return the path of Airflow on its host, without a slash at its end."""
    return urlsplit(_base_url()).path.rstrip("/")


def page_path(*parts: str) -> str:
    """Return the path at which Airflow shows a page; without parts, the overview."""
    base = airflow_path()
    page = "/".join(quote(part, safe="") for part in parts)
    return f"{base}/plugin/{VIEW}{base}{ROOT}/{page}"


class PageLink(BaseOperatorLink):
    """A button of a task that leads to the page of what the task works on: the operator's `page`."""

    @property
    def name(self) -> str:
        """Return the text of the button."""
        return "Work orders"

    def get_link(self, operator: BaseOperator, *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the operator's page."""
        del ti_key
        url = urlsplit(_base_url())
        host = f"{url.scheme}://{url.netloc}" if url.netloc else ""
        return host + page_path(*getattr(operator, "page", ()))


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="/"))
