"""Airflow triggers, which run in the triggerer."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.airflow.triggers.runs import WaitForDagRunsTrigger as WaitForDagRunsTrigger
    from workorders.airflow.triggers.runs import WaitForRunsTrigger as WaitForRunsTrigger
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "WaitForDagRunsTrigger": "runs",
            "WaitForRunsTrigger": "runs",
        },
    )
    __all__ = list(__dir__())
