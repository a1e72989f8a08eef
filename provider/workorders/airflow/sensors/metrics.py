"""The sensor that reports the metrics."""

from collections.abc import Sequence
from typing import Any

from workorders.airflow.sensors.polling import PollingSensor
from workorders.airflow.triggers.metrics import ReportMetricsTrigger


class ReportMetricsSensor(PollingSensor):
    """Sends all metrics to Airflow's stats every 15 s, from the triggerer, for an hour.

    Args:
        database_connection: Airflow connection of the work orders' database.
        start_from_trigger: whether the triggerer takes the task straight from the scheduler.
    """

    template_fields: Sequence[str] = ("database_connection",)
    trigger_class = ReportMetricsTrigger

    def __init__(
        self, *, database_connection: str = "workorders_db", start_from_trigger: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection
        self.start(from_trigger=start_from_trigger)
