"""The listener and ingest Dags of every trigger file: in the folder WORKORDERS_TRIGGERS, or else include/triggers."""

from pathlib import Path

from workorders.airflow.dags import trigger_dags, trigger_folder

globals().update(trigger_dags(trigger_folder(Path(__file__).parent.parent / "include" / "triggers")))
