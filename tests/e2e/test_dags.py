"""What everybody expects of DAGs, asked of the DAGs that Airflow has read."""

import pytest

from support.airflow_api import AirflowApi
from workorders.airflow.retries import UNLIMITED_RETRIES

NAMES = ("orders", "stalls", "outages", "crashes", "unconnected")


def test_no_file_has_an_error(api: AirflowApi) -> None:
    assert api.import_errors() == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("role", ["listener", "ingest"])
def test_a_dag_shows_whose_it_is_and_what_it_does(api: AirflowApi, name: str, role: str) -> None:
    dag = api.dags()[f"{name}_{role}"]
    assert {"workorders", "kafka", role} <= {tag["name"] for tag in dag["tags"]}
    assert dag["owners"] == ["workorders"]
    assert name in dag["doc_md"]
    assert dag["description"]
    assert not dag["is_paused"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("role", ["listener", "ingest"])
def test_every_task_is_retried_without_end(api: AirflowApi, name: str, role: str) -> None:
    tasks = api.get(f"/dags/{name}_{role}/tasks")["tasks"]
    assert tasks
    assert {task["retries"] for task in tasks} == {UNLIMITED_RETRIES}
