"""The listener and ingest Dags of every trigger file: in the folder WORKORDERS_TRIGGERS, or else include/triggers."""

from pathlib import Path

from workorders.airflow.dags import trigger_dags, trigger_folder, workflow_folder, workflow_modules

_include = Path(__file__).parent.parent / "include"
globals().update(
    trigger_dags(trigger_folder(_include / "triggers"), workflow_folder(_include / "workflows"), workflow_modules())
)
