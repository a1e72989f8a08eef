"""Dag factories that are independent of the type of a trigger."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.airflow.dags.factories import folder_modules as folder_modules
    from workorders.airflow.dags.factories import trigger_dags as trigger_dags
    from workorders.airflow.dags.maintenance import maintenance_dags as maintenance_dags
    from workorders.airflow.dags.workflows import workflow_dags as workflow_dags
    from workorders.core.environment import trigger_folder as trigger_folder
    from workorders.core.environment import workflow_folder as workflow_folder
    from workorders.core.environment import workflow_modules as workflow_modules
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "folder_modules": "factories",
            "maintenance_dags": "maintenance",
            "trigger_dags": "factories",
            "trigger_folder": "factories",
            "workflow_dags": "workflows",
            "workflow_folder": "workflows",
            "workflow_modules": "workflows",
        },
    )
    __all__ = list(__dir__())
