"""The upgrade that signs markers, on an outbox of before."""

import re
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from local_stack.stack import LocalStack
from workorders import schema
from workorders.core.postgres.connection import SCHEMA

pytestmark = pytest.mark.integration

SIGNS_MARKERS = "outbox_0004"


@pytest.fixture
def of_before(stack: LocalStack) -> str:
    """A database whose markers are not signed yet."""
    name = f"upgrade_{uuid4().hex[:12]}"
    stack.postgres.create_database(name)
    url = stack.postgres.url(name)
    schema.upgrade(url)
    before = ScriptDirectory.from_config(schema._configuration()).get_revision(SIGNS_MARKERS)
    assert before is not None
    migrate(url, command.downgrade, str(before.down_revision))
    return url


def migrate(url: str, move: Callable[[Config, str], None], revision: str) -> None:
    with schema.engine(url).begin() as connection:
        config = schema._configuration()
        config.attributes["connection"] = connection
        config.attributes["target_metadata"] = schema.metadata
        config.attributes["version_table_schema"] = SCHEMA
        move(config, revision)


def test_a_batch_whose_marker_nobody_could_tell_from_a_forged_one_stops_the_upgrade(of_before: str) -> None:
    with psycopg.connect(of_before) as connection:
        connection.execute("INSERT INTO workorders.outbox_claims VALUES (3, 1, 'topic', 0, true, now(), '{1}')")
    with pytest.raises(DBAPIError, match=re.escape("The tables were not upgraded.")):
        schema.upgrade(of_before)
    assert schema.current(of_before) != schema.newest()
    with psycopg.connect(of_before) as connection:
        connection.execute("DELETE FROM workorders.outbox_claims")
    assert schema.upgrade(of_before) == schema.newest()


def test_the_topic_in_which_markers_lie_already_is_refused_from_the_upgrade_on(of_before: str) -> None:
    with psycopg.connect(of_before) as connection:
        connection.execute("SELECT workorders.enqueue('ours', 'k', 'v')")
        connection.execute("UPDATE workorders.outbox_shards SET markers_topic = 'ours' WHERE shard < 2")
    schema.upgrade(of_before)
    with psycopg.connect(of_before, autocommit=True) as connection:
        connection.execute("SELECT workorders.enqueue('workorders-outbox-markers', 'k', 'v')")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="keeps its own markers"):
            connection.execute("SELECT workorders.enqueue('ours', 'k', 'v')")
