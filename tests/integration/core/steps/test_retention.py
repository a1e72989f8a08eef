from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.runs import finish_all
from support.work_orders import accepted_range
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection, connect
from workorders.core.steps.retention import purge_steps

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(stack: LocalStack, name: str) -> Iterator[Connection]:
    """A database of the user, with the table of its transactions."""
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    with connect(stack.postgres.url(database), application_name="test") as connection:
        connection.execute(
            "CREATE TABLE workorders_steps (work_order uuid, generation integer, name text, "
            "finished_at timestamptz NOT NULL DEFAULT now(), result jsonb, PRIMARY KEY (work_order, generation, name))"
        )
        connection.commit()
        yield connection


def left(shop: Connection) -> list[tuple[UUID, str]]:
    found = shop.execute("SELECT work_order, name FROM workorders_steps ORDER BY work_order, name").fetchall()
    shop.rollback()
    return found


def test_rows_go_when_they_are_old_and_their_work_order_can_never_run_again(
    shop: Connection, connection: Connection, name: str
) -> None:
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, accepted_range("s", 0, 2))
    kept, erased = sorted(run.work_order_id for run in finish_all(connection, name, "failed"))
    connection.execute("UPDATE workorders.dataclips SET body = NULL, request = '{}' WHERE id = %s", [erased])
    connection.commit()
    deleted, young = sorted(run_ids(2))
    for work_order in (kept, erased, deleted):
        for step in ("charge", "ship"):
            shop.execute(
                "INSERT INTO workorders_steps VALUES (%s, 1, %s, now() - interval '30 days', '1')", [work_order, step]
            )
    shop.execute("INSERT INTO workorders_steps VALUES (%s, 1, 'ship', now() - interval '29 days', '1')", [young])
    shop.commit()
    assert purge_steps(shop, connection, older_than=timedelta(days=29, hours=12), step=1) == 4
    assert sorted(left(shop)) == sorted([(kept, "charge"), (kept, "ship"), (young, "ship")])
    assert purge_steps(shop, connection, older_than=timedelta(days=29, hours=12)) == 0
