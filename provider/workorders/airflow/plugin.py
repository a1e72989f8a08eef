"""What the package adds to Airflow itself, beside DAGs."""

from airflow.plugins_manager import AirflowPlugin


class WorkOrdersPlugin(AirflowPlugin):
    """Announces the package to every component of Airflow, which lists it under Admin, Plugins."""

    name = "workorders"
