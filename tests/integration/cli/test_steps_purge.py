"""Old results of transactions leave the database of the user."""

from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.command import Command
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration


def test_old_results_of_transactions_are_deleted_from_the_database_of_a_connection(
    stack: LocalStack, workorders: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    url = stack.postgres.url(database)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", url)
    with connect(url) as shop:
        shop.execute("CREATE TABLE workorders_steps (work_order_id uuid, finished_at timestamptz)")
        for days in (401, 399):
            row = [uuid4(), days]
            shop.execute("INSERT INTO workorders_steps VALUES (%s, now() - make_interval(days => %s))", row)
    command = ("steps", "purge", "--connection", "shop_db", "--older-than")
    assert workorders(*command, "400d").out == "1 results of transactions were deleted.\n"
    assert workorders(*command, "400d").out == "0 results of transactions were deleted.\n"
    assert workorders(*command, "long ago").code == 2
    assert (
        "Airflow has no connection nowhere"
        in workorders("steps", "purge", "--connection", "nowhere", *command[-1:], "1d").err
    )
