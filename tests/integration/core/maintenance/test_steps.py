from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from local_stack.stack import LocalStack
from support.runs import finish_all
from support.work_orders import accepted_range
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.ids import run_ids
from workorders.core.maintenance.steps import purge_steps
from workorders.core.postgres.connection import Connection, connect

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(stack: LocalStack, name: str) -> Iterator[Connection]:
    """A database of the user, with the table of its transactions."""
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    with connect(stack.postgres.url(database), application_name="test") as connection:
        connection.execute(
            "CREATE TABLE workorders_steps (work_order_id uuid, finished_at timestamptz NOT NULL DEFAULT now(), "
            "run_id uuid NOT NULL, generation integer, name text, result jsonb, "
            "PRIMARY KEY (work_order_id, generation, name))"
        )
        connection.commit()
        yield connection


def left(shop: Connection) -> set[tuple[UUID, str]]:
    found = set(shop.execute("SELECT work_order_id, name FROM workorders_steps").fetchall())
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
    for work_order, days in ((kept, 30), (erased, 30), (deleted, 30), (young, 29)):
        for step in ("charge", "ship"):
            shop.execute(
                "INSERT INTO workorders_steps VALUES (%s, now() - make_interval(days => %s), %s, 1, %s, '1')",
                [work_order, days, uuid4(), step],
            )
    shop.commit()
    assert purge_steps(shop, connection, older_than=timedelta(days=29, hours=12), step=1) == 4
    assert left(shop) == {(id_, step) for id_ in (kept, young) for step in ("charge", "ship")}
    assert purge_steps(shop, connection, older_than=timedelta(days=29, hours=12)) == 0
