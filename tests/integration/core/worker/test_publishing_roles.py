"""A role that may store the ends of runs, and may not publish."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from support.executing import Executing
from workorders.core.postgres.connection import SCHEMA, connect
from workorders.outbox.enqueue import enqueue_published

pytestmark = pytest.mark.integration

_PASSWORD = "of-a-test"
RUNS = """
    SELECT runs.state::text, error_type, error FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s ORDER BY work_order_id
"""


@pytest.fixture
def writer(stack: LocalStack, name: str) -> Iterator[str]:
    """The database as a role reaches it that may do everything with the tables and call none of the functions."""
    role, schema = sql.Identifier(name), sql.Identifier(SCHEMA)
    grants = sql.SQL(
        """
        GRANT USAGE ON SCHEMA {schema} TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}
        """
    ).format(schema=schema, role=role)
    with psycopg.connect(make_conninfo(stack.postgres.url(SUPERUSER), dbname="workorders"), autocommit=True) as server:
        server.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, _PASSWORD))
        with connect(stack.database_url) as owner:
            owner.execute(grants)
        yield make_conninfo(stack.database_url, user=name, password=_PASSWORD)
        server.execute(sql.SQL("DROP OWNED BY {}").format(role))
        server.execute(sql.SQL("DROP ROLE {}").format(role))


def test_where_one_of_three_runs_publishes_and_may_not_all_three_ends_are_stored(
    stack: LocalStack, writer: str, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}, {"do": "publish"}, {"do": "echo"}])
    executing.worker(database_url=writer, enqueue=enqueue_published).work()
    ends = executing.rows(RUNS)
    assert [state for state, _, _ in ends] == ["success", "exception", "success"]
    assert ends[1][1:] == (
        "InsufficientPrivilege",
        "What the run returned or published was rejected: permission denied for function enqueue_many",
    )
