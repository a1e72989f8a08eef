"""The Dag of every workflow: in the folder WORKORDERS_WORKFLOWS, or else include/workflows, and in named modules."""

from pathlib import Path

from workorders.airflow.dags import workflow_dags, workflow_folder, workflow_modules

globals().update(
    workflow_dags(workflow_folder(Path(__file__).parent.parent / "include" / "workflows"), workflow_modules())
)
