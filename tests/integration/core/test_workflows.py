import pytest

from local_stack.stack import LocalStack
from support.working import Working
from workorders.core import triggers, workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, UnknownNameError
from workorders.core.postgres.connection import Connection, connect

pytestmark = pytest.mark.integration


def test_a_registered_workflow_is_found_as_it_was_defined(connection: Connection, name: str) -> None:
    definition = WorkflowDefinition.model_validate(
        {
            "name": name,
            "callable": "a.b:c",
            "concurrency": 3,
            "ordering_key": "request:/key",
            "retries": {"max_retries": 2},
        }
    )
    workflow = workflows.register(connection, definition)
    assert workflow == workflows.find(connection, name)
    assert (workflow.definition, workflow.concurrency) == (definition, 3)
    assert workflow in workflows.find_all(connection)


def test_registering_again_changes_the_definition_but_not_the_row(connection: Connection, name: str) -> None:
    first = Working.on(connection, name).workflow
    second = Working.on(connection, name, concurrency=1).workflow
    assert (second.id, second.concurrency) == (first.id, 1)


def test_registering_the_same_again_writes_nothing_and_waits_for_no_claim(
    stack: LocalStack, connection: Connection, name: str
) -> None:
    def version() -> object:
        return connection.execute("SELECT xmin::text FROM workorders.workflows WHERE name = %s", (name,)).fetchone()

    workflow = Working.on(connection, name).workflow
    before = version()
    connection.commit()
    with connect(stack.database_url) as claiming:
        claiming.execute("SELECT FROM workorders.workflows WHERE id = %s FOR NO KEY UPDATE", (workflow.id,))
        connection.execute("SET LOCAL lock_timeout = '5s'")
        assert workflow.definition is not None
        assert workflows.register(connection, workflow.definition) == workflow
    assert version() == before


def test_a_definition_that_may_be_old_is_stored_only_if_none_can_be_read(connection: Connection, name: str) -> None:
    old, new = (
        WorkflowDefinition.model_validate({"name": name, "callable": "a.b:c", "concurrency": n}) for n in (1, 2)
    )
    assert workflows.register_unless_known(connection, old).definition == old
    workflows.register(connection, new)
    assert workflows.register_unless_known(connection, old).definition == old
    assert workflows.find(connection, name).definition == new
    connection.execute("""UPDATE workorders.workflows SET definition = '{"later": 1}' WHERE name = %s""", (name,))
    workflows.register_unless_known(connection, old)
    assert workflows.find(connection, name).definition == old


def test_the_callable_is_the_files_whatever_the_row_contains_by_then(
    stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = workflows.find

    def changed_meanwhile(connection: Connection, name: str) -> workflows.Workflow:
        connection.execute(
            """UPDATE workorders.workflows SET definition = definition || '{"callable": "os:abort"}' WHERE name = %s""",
            (name,),
        )
        return found(connection, name)

    monkeypatch.setattr(workflows, "find", changed_meanwhile)
    definition = WorkflowDefinition.model_validate({"name": name, "callable": "a.b:c"})
    with connect(stack.database_url) as connection:
        assert workflows.register(connection, definition).definition == definition


def test_a_workflow_that_only_a_trigger_named_has_no_definition_yet(connection: Connection, name: str) -> None:
    triggers.register(connection, name=name, type_="test", workflow=name, definition={})
    workflow = workflows.find(connection, name)
    assert (workflow.definition, workflow.concurrency) == (None, None)


def test_an_unknown_workflow_is_reported_by_its_name(connection: Connection) -> None:
    with pytest.raises(UnknownNameError, match="No workflow nonsense is registered"):
        workflows.find(connection, "nonsense")


def test_a_definition_of_another_version_is_refused_with_its_field(connection: Connection, name: str) -> None:
    Working.on(connection, name)
    connection.execute(
        """UPDATE workorders.workflows SET definition = definition || '{"later": 1}' WHERE name = %s""", (name,)
    )
    with pytest.raises(ConfigurationError, match=f"Workflow {name} in the database: later: there is no such field"):
        workflows.find(connection, name)


def test_a_trigger_knows_the_ordering_key_of_its_workflow(connection: Connection, name: str) -> None:
    at = Working.on(connection, name, ordering_key="header:Tenant")
    assert triggers.find(connection, at.trigger.name).ordering_key == "header:Tenant"
