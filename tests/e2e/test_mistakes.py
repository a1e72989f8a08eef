"""Mistakes of people: in a trigger file, in a connection. They fail where people look, with a sentence."""

from support.airflow_api import AirflowApi, Task
from support.eventually import eventually
from support.flow import SECONDS


def failing(api: AirflowApi, dag_id: str, states: set[str]) -> Task:
    """Wait until a task of a DAG has failed, and return it."""

    def found() -> Task | None:
        tasks = [task for run in api.runs(dag_id) for task in api.tasks(run)]
        return next((task for task in tasks if task.state in states), None)

    task = eventually(found, seconds=SECONDS, what=f"a failed task of {dag_id}")
    assert task is not None
    return task


def test_a_trigger_file_with_a_mistake_gives_a_dag_that_fails_with_the_sentence(api: AirflowApi) -> None:
    sentence = "mistaken.yaml: max_mesages: there is no such field; did you mean max_messages?"
    task = failing(api, "mistaken_refused", {"failed"})
    assert sentence in api.error(task)
    assert sentence in api.dags()["mistaken_refused"]["doc_md"]


def test_a_trigger_file_with_a_mistake_takes_no_other_trigger_down(api: AirflowApi) -> None:
    dags = api.dags()
    assert "mistaken_listener" not in dags
    for name in ("orders", "stalls", "outages", "crashes"):
        assert {f"{name}_listener", f"{name}_ingest"} <= set(dags)
    assert api.import_errors() == []


def test_a_connection_that_does_not_exist_fails_the_task_with_a_sentence(api: AirflowApi) -> None:
    task = failing(api, "unconnected_listener", {"up_for_retry", "failed"})
    log = api.log_text(task, 1)
    assert task.id == "wait_for_messages"
    assert "nowhere" in f"{log} {api.error(task, 1)}"
