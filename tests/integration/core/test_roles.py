"""The roles that an upgrade creates on request: who owns the tables, and who may do what with them."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from workorders.core import schema
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import connect
from workorders.webhook import stored_webhooks
from workorders.webhook.definition import WebhookTriggerDefinition

pytestmark = pytest.mark.integration

_ROLES = ("workorders_owner", "workorders_writer", "workorders_reader")
_PASSWORD = "of-a-test"
_OWNERS = "SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'workorders'"


@pytest.fixture
def administrator(stack: LocalStack, name: str) -> Iterator[str]:
    """An empty database as its superuser reaches it, and no roles."""
    server = stack.postgres.url(SUPERUSER)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        yield make_conninfo(server, dbname=name)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
        for role in _ROLES:
            connection.execute(f"DROP ROLE IF EXISTS {role}".encode())


def login(administrator: str, role: str) -> str:
    """Return the database as a role reaches it, which gets a password."""
    with psycopg.connect(administrator, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {role} PASSWORD '{_PASSWORD}'".encode())
    return make_conninfo(administrator, user=role, password=_PASSWORD)


def owners(administrator: str) -> list[tuple[str]]:
    with psycopg.connect(administrator) as connection:
        return connection.execute(_OWNERS).fetchall()


def lacks(database_url: str) -> list[str]:
    with connect(database_url) as connection:
        return schema.find_missing_rights(connection)


def test_the_owner_owns_the_tables_and_the_writer_lacks_nothing(administrator: str) -> None:
    schema.upgrade(administrator, with_roles=True)
    assert owners(administrator) == [("workorders_owner",)]
    assert lacks(login(administrator, "workorders_writer")) == []
    assert "runs: INSERT, UPDATE" in lacks(login(administrator, "workorders_reader"))
    with psycopg.connect(administrator) as connection:
        connection.execute("REVOKE SELECT ON workorders.kafka_unfinished_ranges FROM workorders_writer")
    assert lacks(login(administrator, "workorders_writer")) == ["kafka_unfinished_ranges: SELECT"]
    schema.require_newest(login(administrator, "workorders_reader"))


def test_the_writer_cannot_define_who_may_call_a_webhook(administrator: str) -> None:
    """Whoever has the writer's URL, such as a function, would open a webhook, or compare its keys with any secret."""
    schema.upgrade(administrator, with_roles=True)
    open_to_all = WebhookTriggerDefinition(name="shop", workflow="ship", authentication="public")
    with connect(login(administrator, "workorders_owner")) as owner:
        stored_webhooks.apply(owner, [open_to_all.model_copy(update={"enabled": False})])
    with connect(login(administrator, "workorders_writer"), autocommit=True) as writer:
        with pytest.raises(ConfigurationError, match="nothing was stored"), writer.transaction():
            stored_webhooks.apply(writer, [open_to_all])
        for change in ("DELETE FROM", "UPDATE", "INSERT INTO"):
            rest = {"UPDATE": "SET path = 'x'", "INSERT INTO": "DEFAULT VALUES"}.get(change, "")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                writer.execute(f"{change} workorders.webhooks {rest}".encode())
        assert [found.definition["enabled"] for found in stored_webhooks.list_stored(writer)] == [False]


def test_the_owner_repeats_it_and_roles_that_exist_stay_as_they_are(administrator: str) -> None:
    with psycopg.connect(administrator, autocommit=True) as connection:
        connection.execute("CREATE ROLE workorders_reader NOLOGIN")
    schema.upgrade(administrator, with_roles=True)
    owner = login(administrator, "workorders_owner")
    with psycopg.connect(owner) as connection:
        connection.execute("CREATE TABLE workorders.of_the_next_version (id integer)")
    assert lacks(login(administrator, "workorders_writer")) == ["of_the_next_version: INSERT, SELECT, UPDATE"]
    schema.upgrade(owner, with_roles=True)
    assert lacks(login(administrator, "workorders_writer")) == []
    with psycopg.connect(administrator) as connection:
        can_login = connection.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'workorders_reader'")
        assert can_login.fetchone() == (False,)


def test_a_user_who_may_create_roles_needs_to_be_no_superuser(administrator: str, name: str) -> None:
    creator = f"{name}-creator"
    with psycopg.connect(administrator, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE \"{creator}\" LOGIN CREATEROLE PASSWORD '{_PASSWORD}'".encode())
        connection.execute(f'GRANT CREATE ON DATABASE "{name}" TO "{creator}"'.encode())
    try:
        schema.upgrade(make_conninfo(administrator, user=creator, password=_PASSWORD), with_roles=True)
        assert owners(administrator) == [("workorders_owner",)]
        assert lacks(login(administrator, "workorders_writer")) == []
    finally:
        with psycopg.connect(administrator, autocommit=True) as connection:
            connection.execute(f'DROP OWNED BY "{creator}"'.encode())
            for role in _ROLES:
                connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
                connection.execute(f"DROP ROLE {role}".encode())
            connection.execute(f'DROP ROLE "{creator}"'.encode())


def test_the_printed_sql_does_the_same_and_is_never_empty(administrator: str) -> None:
    for _ in range(2):
        text = schema.upgrade_sql(administrator, with_roles=True)
        with psycopg.connect(administrator, autocommit=True) as connection:
            connection.execute(text.encode())
        assert owners(administrator) == [("workorders_owner",)]
        assert lacks(login(administrator, "workorders_writer")) == []


def test_tables_that_an_administrator_upgrades_later_belong_to_the_owner(administrator: str) -> None:
    schema.upgrade(administrator, with_roles=True)
    with psycopg.connect(administrator) as connection:
        connection.execute("DROP TABLE workorders.webhooks")
        connection.execute("DELETE FROM workorders.alembic_version WHERE version_num LIKE 'webhook%'")
    schema.upgrade(administrator)
    assert owners(administrator) == [("workorders_owner",)]
