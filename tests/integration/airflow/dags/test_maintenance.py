"""The operators of the maintenance, as a worker runs them."""

from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException
from psycopg.conninfo import make_conninfo

from local_stack.stack import LocalStack
from support.executing import Executing
from support.outbox import new_outbox
from support.runs import finish_all
from support.step_functions import user_database
from support.work_orders import accepted_range
from workorders.airflow.dags import maintenance
from workorders.airflow.dags.maintenance import MaintenanceOperator
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connection leads to the stack."""
    monkeypatch.setattr(maintenance, "database_url", lambda _: stack.database_url)


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """Five work orders that failed."""
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, accepted_range("s", 0, 5))
    connection.commit()
    finish_all(connection, name, "failed")
    return trigger


def test_orphaned_jobs_are_run_and_a_failure_fails_the_task(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    connection.execute("DELETE FROM workorders.bulk_jobs")
    good, bad = (
        jobs.create_job(connection, "rerun", Filter(trigger=name), Attribution("ada", "a test")) for _ in range(2)
    )
    connection.execute("UPDATE workorders.bulk_jobs SET created_at = now() - interval '1 minute'")
    connection.commit()
    operator = MaintenanceOperator(task_id="run_bulk_jobs")
    context: Any = {}
    connection.execute("UPDATE workorders.bulk_jobs SET filter = %s WHERE id = %s", ('{"trigger": "unknown"}', bad.id))
    connection.commit()
    with pytest.raises(AirflowFailException, match=f"^Bulk operation {bad.id} failed: No trigger unknown"):
        operator.execute(context)
    assert jobs.get_job(connection, good.id).state == "finished"
    connection.commit()
    assert operator.execute(context) == {}


def test_lost_runs_are_recovered_although_no_dag_of_their_workflow_runs_and_can_then_be_rerun(
    stack: LocalStack, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{}])
    executing.claim_and_fall_silent()
    context: Any = {}
    with connect(stack.database_url) as connection:
        connection.execute(
            "UPDATE workorders.runs SET state = 'started' WHERE workflow_id = %s", [executing.workflow.id]
        )
    assert MaintenanceOperator(task_id="recover_lost_runs").execute(context)["lost"] > 0
    assert executing.states() == [("lost", "lost")]
    with connect(stack.database_url) as connection:
        job = jobs.create_job(connection, "rerun", Filter(workflow=name), Attribution("ada", "a test"))
        connection.commit()
        assert runner.run_job(connection, job.id).done == 1
    assert executing.states() == [("requeued", "available")]


def test_a_refresh_counts_by_state_if_the_counts_are_due(
    stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = new_outbox(stack).database_url
    monkeypatch.setattr(maintenance, "database_url", lambda _: own)
    Executing(own, name).create([{}] * 3)
    refresh = MaintenanceOperator(task_id="refresh_search_index")
    context: Any = {}
    assert refresh.execute(context)["counted"]
    with connect(own) as connection:
        assert work_orders.latest_counts(connection, workflow=name).by_state == {"pending": 3}
    assert not refresh.execute(context)["counted"]


def test_retention_returns_its_numbers_and_is_due_again_a_day_after_its_end(
    connection: Connection, trigger: Trigger
) -> None:
    context: Any = {}
    retain = MaintenanceOperator(task_id="delete_expired")
    connection.execute("DELETE FROM workorders.history_marks WHERE name LIKE 'retention%'")
    connection.commit()
    assert set(retain.execute(context)) == {"deleted", "wiped"}
    assert retain.execute(context) == {}
    connection.execute(
        "UPDATE workorders.history_marks SET moved_at = now() - interval '25 hours' WHERE name LIKE 'retention%'"
    )
    connection.commit()
    assert set(retain.execute(context)) == {"deleted", "wiped"}


def test_results_are_deleted_from_each_database_that_answers_and_the_others_are_named(
    stack: LocalStack, connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = user_database(stack, f"shop-{name}")
    urls = {"workorders_db": stack.database_url, "a_db": make_conninfo(shop, port=1), "z_db": shop}
    monkeypatch.setattr(maintenance, "database_url", urls.__getitem__)
    context: Any = {}
    delete = MaintenanceOperator(task_id="delete_expired_steps")
    assert delete.execute(context) == {"deleted": 0}
    for named in ("a_db", "z_db"):
        arguments = [uuid4(), named]
        connection.execute("INSERT INTO workorders.expired_steps VALUES (%s, now() - interval '2 days', %s)", arguments)
    connection.commit()
    with connect(shop) as database:
        database.execute(
            "INSERT INTO workorders_steps (work_order_id, run_id, generation, name) VALUES (%s, %s, 1, 'n')",
            [arguments[0], uuid4()],
        )
    with pytest.raises(AirflowFailException, match=r"from 1 of 2 databases.* Airflow connection a_db: Postgres: "):
        delete.execute(context)
    with connect(shop) as database:
        assert database.execute("SELECT FROM workorders_steps").fetchall() == []
    urls["a_db"] = shop
    assert delete.execute(context) == {"deleted": 0}
    assert connection.execute("SELECT FROM workorders.expired_steps").fetchall() == []
