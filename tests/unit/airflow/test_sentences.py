"""The failure of every operator of ours contains all that a person needs, if its surroundings fail."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pendulum
import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator

from local_stack.ports import free_port
from support.definitions import define
from support.operators import subclasses
from support.tries import a_try
from workorders.airflow.dags.factories import ConfigurationErrorOperator
from workorders.airflow.dags.maintenance import MaintenanceOperator
from workorders.airflow.dags.workflows import ExecuteRunsOperator
from workorders.airflow.retries import unlimited_retries
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import WorkOrdersError
from workorders.cron.airflow import CreateScheduledOperator
from workorders.cron.definition import CronTriggerDefinition
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.airflow.outbox_relay import SendMessagesOperator
from workorders.kafka.airflow.plan_batch import PlanBatchOperator
from workorders.kafka.airflow.spark_submission import EngineOperator
from workorders.manual.airflow import CreateByHandOperator
from workorders.manual.definition import ManualTriggerDefinition
from workorders.outbox.relay.definition import RelayDefinition

Make = Callable[..., BaseOperator]

HOW: Final[dict[type[BaseOperator], tuple[dict[str, Any], str, str]]] = {
    PlanBatchOperator: (
        {"definition": define("orders"), "ingest_dag_id": "orders_ingest"},
        "Trigger orders: ",
        "No offset was committed: messages wait in Kafka",
    ),
    CreateWorkOrdersOperator: (
        {"definition": define("orders"), "batch_id": 7},
        "Trigger orders, batch 7: ",
        "Nothing was committed.",
    ),
    CommitOffsetsOperator: (
        {"definition": define("orders"), "batch_id": 7},
        "Trigger orders, batch 7: ",
        "The offsets of consumer group workorders-orders were not committed",
    ),
    SendMessagesOperator: ({"definition": RelayDefinition(), "shard": 3}, "Outbox, shard 3: ", "nothing is lost"),
    ExecuteRunsOperator: (
        {"definition": WorkflowDefinition(name="admit", callable="a.module:function")},
        "Workflow admit: ",
        "not begun wait again",
    ),
    MaintenanceOperator: (
        {"task_id": "check_gaps"},
        "The check of sequences for gaps: ",
        "No alert for a gap was lost.",
    ),
    CreateScheduledOperator: (
        {"definition": CronTriggerDefinition(name="nightly", workflow="admit", schedule="@daily")},
        "Trigger nightly, due 2026-03-01T09:00:00+00:00: ",
        "No work order was created.",
    ),
    CreateByHandOperator: (
        {"definition": ManualTriggerDefinition(name="asked", workflow="admit")},
        "Trigger asked: ",
        "No work order was created.",
    ),
}
"""How each is made, how its sentence begins, and what it contains of what was not done."""
ELSEWHERE: Final = {
    ConfigurationErrorOperator: "it fails by design, with the sentence of a file",
    EngineOperator: "it is the base of the operator that creates work orders",
}

ASKED: Final[dict[str, Any]] = {
    "params": {"reason": "x", "body": {}, "actor": None, "key": None},
    "dag_run": SimpleNamespace(
        dag_id="a",
        run_id="b",
        run_type="manual",
        triggering_user_name="ada",
        run_after=pendulum.datetime(2026, 3, 1, 9),
        clear_number=0,
        conf={},
    ),
}


def test_no_operator_is_forgotten_here() -> None:
    assert {kind for kind in subclasses(BaseOperator) if not issubclass(kind, BaseSensorOperator)} == {
        *HOW,
        *ELSEWHERE,
    }


def failed(kind: type[BaseOperator]) -> str:
    """Run the operator's second try, which fails, and return its sentence without how it begins and ends."""
    arguments, where, undone = HOW[kind]
    operator = kind(**{"task_id": "a_task", **arguments, **unlimited_retries()})
    with pytest.raises(WorkOrdersError) as raised:
        operator.execute(a_try(2, **ASKED))
    sentence = str(raised.value)
    assert sentence.startswith(where)
    assert undone in sentence
    assert sentence.endswith(" Next try in 2 s.")
    return sentence


@pytest.mark.parametrize("kind", HOW, ids=lambda kind: kind.__name__)
def test_without_its_connection_it_names_the_one_to_define(
    kind: type[BaseOperator], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORKORDERS_DB", "KAFKA_DEFAULT"):
        monkeypatch.delenv(f"AIRFLOW_CONN_{name}", raising=False)
    sentence = failed(kind)
    assert "workorders_db" in sentence or "kafka_default" in sentence
    assert "define this connection in Airflow" in sentence


def test_where_a_dag_does_the_runs_it_names_those_that_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_WORKORDERS_DB", raising=False)
    kind: type[BaseOperator] = ExecuteRunsOperator
    arguments: dict[str, Any] = {"definition": WorkflowDefinition(name="admit", dag_id="a")}
    monkeypatch.setitem(HOW, kind, (arguments, "Workflow admit: ", "the next try records their ends"))
    assert failed(ExecuteRunsOperator)


@pytest.mark.parametrize("kind", HOW, ids=lambda kind: kind.__name__)
def test_without_its_database_it_reports_that_and_no_password(
    kind: type[BaseOperator], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", f"postgresql://clerk:t0p-secret@127.0.0.1:{free_port()}/a")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "a:1"}}')
    sentence = failed(kind)
    assert "Connection refused" in sentence
    assert "t0p-secret" not in f"{sentence}{''.join(capfd.readouterr())}"
