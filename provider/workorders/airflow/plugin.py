"""What the package adds to Airflow in addition to Dags."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from workorders.airflow.web_apps import web_apps


class WorkOrdersPlugin(AirflowPlugin):
    """Announces the package to every component of Airflow, which lists it under Admin, Plugins."""

    name = "workorders"
    fastapi_apps: list[Any] = web_apps()
