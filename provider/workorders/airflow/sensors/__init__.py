"""Deferrable sensors that are independent of the type of a trigger."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.airflow.sensors.runs import WaitForDagRunsSensor as WaitForDagRunsSensor
    from workorders.airflow.sensors.runs import WaitForRunsSensor as WaitForRunsSensor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "WaitForDagRunsSensor": "runs",
            "WaitForRunsSensor": "runs",
        },
    )
    __all__ = list(__dir__())
