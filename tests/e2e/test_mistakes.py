"""Mistakes of people: in a trigger file, in a connection. They fail where people look, with a sentence."""

import json
from collections.abc import Callable

import httpx
import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.eventually import eventually
from support.flow import SECONDS
from workorders.core.postgres.connection import delay_seconds


def failing(api: AirflowApi, dag_id: str, states: set[str]) -> Task:
    """Wait until a task of a DAG has failed, and return it."""

    def found() -> Task | None:
        tasks = [task for run in api.runs(dag_id) for task in api.tasks(run)]
        return next((task for task in tasks if task.state in states), None)

    task = eventually(found, seconds=SECONDS, what=f"a failed task of {dag_id}")
    assert task is not None
    return task


def test_a_trigger_file_with_a_mistake_gives_a_dag_that_fails_with_the_sentence(api: AirflowApi) -> None:
    sentence = "mistaken.yaml, line 6: max_mesages: there is no such field; did you mean max_messages?"
    task = failing(api, "mistaken_refused", {"failed"})
    assert sentence in api.error(task)
    others = {f"{name}_{role}" for name in ("orders", "stalls") for role in ("listener", "ingest")}
    eventually(lambda: others <= api.dag_ids(), seconds=SECONDS, what="the Dags of the other files")
    assert "mistaken_listener" not in api.dag_ids()
    assert sentence in api.get("/dags/mistaken_refused/details")["doc_md"]
    assert api.import_errors() == []


def of_tries(api: AirflowApi, task: Task, read: Callable[[Task, int], str]) -> dict[int, str]:
    """Return what is read of each try of a task, by its number.

    Of a try that Airflow itself lost, as its scheduler was killed, at most the triggerer logged something.
    """
    now = api.task(task.run, task.id)
    found = {}
    for number in range(1, now.try_number + 1):
        try:
            found[number] = read(now, number)
        except httpx.HTTPStatusError as error:
            # Airflow keeps no history of a try whose task it took for orphaned.
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
    return found


def sentences(api: AirflowApi, task: Task) -> dict[int, str]:
    """Return how the tries of a task failed so far, by their numbers."""
    return {number: failed for number, failed in of_tries(api, task, api.error).items() if " Next try in " in failed}


@pytest.mark.long
def test_a_connection_with_a_mistake_fails_the_task_with_a_sentence_until_it_is_put_right(
    api: AirflowApi, airflow_stack: LocalStack
) -> None:
    task = failing(api, "unconnected_listener", {"up_for_retry", "failed"})
    assert task.id == "wait_for_messages"
    failures = eventually(
        lambda: found if len(found := sentences(api, task)) > 1 else None, seconds=SECONDS, what="two tries that failed"
    )
    assert failures is not None
    missing = (
        "Trigger unconnected: The conn_id `nowhere` isn't defined: define this connection in Airflow. "
        "[WO-CONNECTION-UNDEFINED]"
    )
    for number, failure in failures.items():
        # The task's policy applies to a wait that failed in the triggerer, too: without a random part.
        assert failure == f"{missing} Nothing was changed. Next try in {delay_seconds(number)} s."

    kafka = airflow_stack.kafka.sasl_settings
    api.set_connection("nowhere", "kafka", json.dumps({**kafka, "sasl.password": "wrong-password"}))

    def refused() -> str | None:
        return next((sentence for sentence in sentences(api, task).values() if "refused the client" in sentence), None)

    sentence = eventually(refused, seconds=SECONDS, what="a try that Kafka refused")
    assert sentence is not None
    assert sentence.startswith("Trigger unconnected: Kafka at ")
    assert "check the credentials and permissions of the Airflow Kafka connection" in sentence
    assert " Nothing was changed. Next try in " in sentence
    logs = of_tries(api, task, lambda now, number: json.dumps(api.log(now, number))).values()
    assert any("refused the client" in log for log in logs)
    assert all("wrong-password" not in log for log in logs)

    api.set_connection("nowhere", "kafka", json.dumps(kafka))

    def waits() -> bool:
        now = api.task(task.run, task.id)
        return now.state == "deferred" and "does not have the topic" in api.log_text(now)

    eventually(waits, seconds=SECONDS, what="the wait for a topic that is not there yet")
