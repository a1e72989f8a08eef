"""The task that watches the sequences of all triggers, on a real database."""

import logging
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack.stack import LocalStack
from support import remembering_notifier
from support.admission import BY_NUMBER, event, register
from support.definitions import define
from support.tries import a_try
from workorders.airflow.dags.maintenance import MaintenanceOperator
from workorders.core import schema
from workorders.core.creation.work_orders import create_for
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.airflow import stall_notifications

pytestmark = pytest.mark.integration

TRY: Any = a_try()
NOTIFY = ["support.remembering_notifier.hear"]


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """A separate database, because the task watches all triggers."""
    name = f"gaps_{uuid4().hex[:12]}"
    stack.postgres.create_database(name)
    url = stack.postgres.url(name)
    schema.upgrade(url)
    return url


@pytest.fixture(autouse=True)
def connections(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connection, as its environment gives it."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", database_url)
    remembering_notifier.alerts.clear()


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger that is no Kafka trigger, with sequences."""
    return register(connection, name, sequence={**BY_NUMBER, "alert_above_parked": 2}, notify=NOTIFY)


def come(connection: Connection, trigger: Trigger, *numbers: int, key: str = "order-7") -> None:
    with connection.transaction():
        create_for(connection, trigger, [event(None, key=key, number=number) for number in numbers])
    connection.commit()


def watch() -> dict[str, Any]:
    return MaintenanceOperator(task_id="check_gaps").execute(TRY)


def test_a_gap_of_a_trigger_of_any_type_fails_one_task_and_calls_the_notifiers(
    connection: Connection, trigger: Trigger, caplog: pytest.LogCaptureFixture
) -> None:
    come(connection, trigger, 1, 3, 4)
    watch()
    come(connection, trigger, 5)
    with pytest.raises(AirflowFailException, match=f"Trigger {trigger.name}: sequence .* gap above number 1 .* skip"):
        watch()
    assert [alert.parked for alert in remembering_notifier.alerts] == [3]
    watch()
    assert len(remembering_notifier.alerts) == 1
    come(connection, trigger, 2)
    with caplog.at_level(logging.WARNING):
        watch()
    assert [alert.cleared for alert in remembering_notifier.alerts] == [False, True]


def test_of_several_gaps_of_several_triggers_all_are_alerted_and_the_task_counts_them(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    another = register(
        connection, f"{name}-2", sequence={**BY_NUMBER, "alert_above_parked": 2}, notify=["no.such", *NOTIFY]
    )
    for source, key in ((trigger, "a"), (trigger, "b"), (another, "c")):
        come(connection, source, 1, 3, 4, 5, key=key)
    with pytest.raises(AirflowFailException, match=r"2 more are in the log above\."):
        watch()
    assert sorted(alert.trigger for alert in remembering_notifier.alerts) == sorted(
        [trigger.name, trigger.name, another.name]
    )


def test_an_attempt_at_a_batch_leaves_the_alert_of_a_gap_to_the_task_that_fails_for_it(
    connection: Connection, trigger: Trigger
) -> None:
    come(connection, trigger, 1, 3, 4, 5)
    assert stall_notifications.claim_alerts(define(trigger.name), connection, logging.getLogger()) == []
    with pytest.raises(AirflowFailException, match=f"Trigger {trigger.name}: sequence "):
        watch()


def test_a_trigger_without_sequences_is_not_watched(connection: Connection, name: str) -> None:
    register(connection, name)
    connection.commit()
    assert watch() == {"alerts": 0}
