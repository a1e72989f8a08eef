"""The Dag by which a person decides on a Kafka trigger: of the folder WORKORDERS_TRIGGERS, or else include/triggers."""

from pathlib import Path

from workorders.airflow.dags import trigger_folder
from workorders.kafka.airflow import resolve_dags

globals().update(resolve_dags(trigger_folder(Path(__file__).parent.parent / "include" / "triggers")))
