"""Retention of what transactions have stored in the databases of workflows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from local_stack.stack import LocalStack
from support.databases import own_database
from support.runs import finish_all
from support.step_functions import CONNECTION, user_database
from support.work_orders import accepted_range
from workorders.core import workflows
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

INSERT = "INSERT INTO workorders_steps (work_order_id, run_id, generation, name, result) VALUES (%s, %s, %s, 'n', '1')"


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """A separate database, because retention reads all work orders."""
    return own_database(stack, "expired_steps")


@pytest.fixture
def shop(stack: LocalStack, name: str) -> Iterator[Connection]:
    """A database of a user, with the table of its transactions."""
    with connect(user_database(stack, f"shop-{name}"), application_name="test") as connection:
        yield connection


def store(shop: Connection, *work_orders: UUID) -> None:
    """Store results for each of these work orders, in two generations."""
    for work_order in work_orders:
        for generation in (1, 2):
            shop.execute(INSERT, [work_order, uuid4(), generation])
    shop.commit()


def left(shop: Connection) -> set[UUID]:
    """Return the work orders that have results."""
    found = {id_ for (id_,) in shop.execute("SELECT work_order_id FROM workorders_steps")}
    shop.rollback()
    return found


def retain(connection: Connection, *, days: float) -> None:
    """Run retention as it will be that many days from now."""
    connection.commit()
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=days), pause=lambda _: None)


def let_a_day_pass(connection: Connection) -> None:
    """Make what retention has noted a day old."""
    connection.execute("UPDATE workorders.expired_steps SET expired_at = expired_at - interval '25 hours'")
    connection.commit()


@pytest.mark.parametrize("policy", ["erase_after", "delete_after"])
def test_results_go_a_day_after_their_work_order_can_never_run_again(
    connection: Connection, trigger: Trigger, shop: Connection, name: str, policy: str
) -> None:
    given = {"name": name, "callable": "json:dumps", "database": CONNECTION, "retention": {policy: "10d"}}
    workflows.register(connection, WorkflowDefinition.model_validate(given))
    create_for(connection, trigger, accepted_range("s", 0, 3))
    expired = {run.work_order_id for run in finish_all(connection, name)}
    create_for(connection, trigger, accepted_range("s", 3, 4))
    connection.commit()
    (waiting,) = (id_ for (id_,) in connection.execute("SELECT id FROM workorders.work_orders WHERE state = 'pending'"))
    connection.commit()
    of_another_installation = uuid4()
    store(shop, *expired, waiting, of_another_installation)

    retain(connection, days=9)
    let_a_day_pass(connection)
    assert retention.list_step_databases(connection) == []
    retain(connection, days=11)
    assert retention.list_step_databases(connection) == []
    connection.commit()
    assert retention.delete_steps(connection, CONNECTION, shop) == 0

    let_a_day_pass(connection)
    assert retention.list_step_databases(connection) == [CONNECTION]
    connection.commit()
    assert retention.delete_steps(connection, "other_db", shop) == 0
    assert retention.delete_steps(connection, CONNECTION, shop, step=2) == 6
    assert left(shop) == {waiting, of_another_installation}
    assert retention.list_step_databases(connection) == []
    connection.execute("UPDATE workorders.work_orders SET state = 'cancelled' WHERE id = %s", [waiting])
    connection.commit()


def test_nothing_is_noted_of_a_workflow_without_a_database_and_a_failure_keeps_what_is_noted(
    connection: Connection, trigger: Trigger, shop: Connection, name: str
) -> None:
    for number, database in enumerate((None, CONNECTION)):
        given = {"name": name, "callable": "json:dumps", "database": database, "retention": {"delete_after": "10d"}}
        workflows.register(connection, WorkflowDefinition.model_validate(given))
        create_for(connection, trigger, accepted_range("s", 2 * number, 2 * number + 2))
        store(shop, *(run.work_order_id for run in finish_all(connection, name)))
        retain(connection, days=11)
        let_a_day_pass(connection)
        assert retention.list_step_databases(connection) == ([] if database is None else [CONNECTION])
        connection.commit()
    shop.execute("ALTER TABLE workorders_steps RENAME TO hidden")
    shop.commit()
    with pytest.raises(Exception, match="workorders_steps"):
        retention.delete_steps(connection, CONNECTION, shop)
    shop.execute("ALTER TABLE hidden RENAME TO workorders_steps")
    shop.commit()
    assert retention.delete_steps(connection, CONNECTION, shop) == 4
    assert len(left(shop)) == 2
