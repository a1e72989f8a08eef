"""The task that watches the sequences of a trigger, on a real database."""

import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack.stack import LocalStack
from support import heard
from support.admission import BY_NUMBER, event, register
from support.tries import a_try
from workorders.airflow.operators.sequence_gaps import AlertSequenceGapsOperator
from workorders.core.creation.work_orders import create_for
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

TRY: Any = a_try()


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connection, as its environment gives it."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger that is no Kafka trigger, with sequences."""
    return register(connection, name, sequence={**BY_NUMBER, "alert_above_parked": 2})


def come(connection: Connection, trigger: Trigger, *numbers: int, key: str = "order-7") -> None:
    with connection.transaction():
        create_for(connection, trigger, [event(None, key=key, number=number) for number in numbers])
    connection.commit()


def watch(trigger: str) -> None:
    AlertSequenceGapsOperator(task_id="watch", trigger_name=trigger, notify=["support.heard.hear"]).execute(TRY)


def test_a_gap_of_a_trigger_of_any_type_fails_one_task_and_calls_the_notifiers(
    connection: Connection, trigger: Trigger, caplog: pytest.LogCaptureFixture
) -> None:
    heard.alerts.clear()
    come(connection, trigger, 1, 3, 4)
    watch(trigger.name)
    come(connection, trigger, 5)
    with pytest.raises(AirflowFailException, match=f"Trigger {trigger.name}: sequence .* gap above number 1 .* skip"):
        watch(trigger.name)
    assert [alert.parked for alert in heard.alerts] == [3]
    watch(trigger.name)
    assert len(heard.alerts) == 1
    come(connection, trigger, 2)
    with caplog.at_level(logging.WARNING):
        watch(trigger.name)
    assert [alert.cleared for alert in heard.alerts] == [False, True]


def test_of_several_gaps_all_are_alerted_and_the_task_counts_them(connection: Connection, trigger: Trigger) -> None:
    heard.alerts.clear()
    for key in ("a", "b", "c"):
        come(connection, trigger, 1, 3, 4, 5, key=key)
    with pytest.raises(AirflowFailException, match=r"2 more are in the log above\."):
        watch(trigger.name)
    assert len(heard.alerts) == 3


def test_a_trigger_that_has_had_no_event_has_no_gap(name: str) -> None:
    watch(f"{name}-unheard-of")
