from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from local_stack.stack import LocalStack
from workorders.core import workflows
from workorders.core.admission.limits import LimitSettings
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, UnknownNameError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger, find, find_all, register, register_definition, stream_id
from workorders.manual.definition import ManualTriggerDefinition

pytestmark = pytest.mark.integration


def stored(connection: Connection, name: str) -> tuple[object, ...] | None:
    return connection.execute(
        "SELECT definition, updated_at FROM workorders.triggers WHERE name = %s", (name,)
    ).fetchone()


def test_a_registered_trigger_is_found_by_its_name(connection: Connection, name: str) -> None:
    trigger = register(connection, name=name, type_="kafka", workflow="admit", definition={"topics": ["orders"]})
    assert find(connection, name) == trigger
    assert (trigger.name, trigger.type, trigger.workflow) == (name, "kafka", "admit")
    assert [found for found in find_all(connection) if found.name == name] == [trigger]


def test_registering_again_changes_the_definition_and_the_workflow_but_not_the_row(
    connection: Connection, name: str
) -> None:
    first = register(connection, name=name, type_="kafka", workflow="admit", definition={"a": 1})
    second = register(connection, name=name, type_="kafka", workflow=f"discharge-{name}", definition={"a": 2})
    assert second.id == first.id
    assert (second.workflow, second.workflow_id == first.workflow_id) == (f"discharge-{name}", False)
    row = stored(connection, name)
    assert row is not None
    assert row[0] == {"a": 2}


def test_registering_the_same_again_writes_nothing(connection: Connection, name: str) -> None:
    register(connection, name=name, type_="kafka", workflow="admit", definition={"a": 1})
    connection.commit()
    before = stored(connection, name)
    register(connection, name=name, type_="kafka", workflow="admit", definition={"a": 1})
    connection.commit()
    assert stored(connection, name) == before


def test_a_name_cannot_change_its_type(connection: Connection, name: str) -> None:
    register(connection, name=name, type_="kafka", workflow="admit", definition={})
    with pytest.raises(ConfigurationError, match=f"^Trigger {name} exists with type kafka and cannot become cron"):
        register(connection, name=name, type_="cron", workflow="admit", definition={})


def test_a_trigger_stores_the_rules_of_its_workflow_and_follows_the_file(connection: Connection, name: str) -> None:
    definition = ManualTriggerDefinition(name=name, workflow=name)
    for fields in ({"ordering_key": "key", "limits": {"max_waiting": 3}}, {"ordering_key": "header:Tenant"}):
        workflow = WorkflowDefinition.model_validate({"name": name, "callable": "a.b:c", **fields})
        trigger = register_definition(connection, definition.with_workflow(workflow))
        assert trigger == find(connection, name)
        assert trigger.ordering_key == fields["ordering_key"]
        assert (LimitSettings.of(trigger) is not None) is ("limits" in fields)


def test_a_trigger_whose_workflow_has_no_file_is_registered_and_warns_unless_the_workflow_is_known(
    connection: Connection, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    definition = ManualTriggerDefinition(name=name, workflow=name)
    mistake = ConfigurationError("ship.yaml, line 2: concurrency: wrong.")
    with pytest.raises(ConfigurationError, match=rf"^Workflow {name} is not registered.*: {mistake}$"):
        register_definition(connection, definition.with_workflow(mistake))
    assert register_definition(connection, definition).ordering_key is None
    assert f"Workflow {name} has no file here and is not registered" in caplog.text
    caplog.clear()
    workflows.register(
        connection, WorkflowDefinition.model_validate({"name": name, "callable": "a.b:c", "ordering_key": "key"})
    )
    assert register_definition(connection, definition).ordering_key == "key"
    assert register_definition(connection, definition.with_workflow(mistake)).ordering_key == "key"
    assert caplog.text == ""


def test_a_trigger_that_was_never_registered_is_unknown(connection: Connection, name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"^No trigger {name} has created work orders here yet; see "):
        find(connection, name)


def test_two_processes_may_register_the_same_trigger_at_once(stack: LocalStack, name: str) -> None:
    barrier = Barrier(4)

    def registered(_: int) -> Trigger:
        with connect(stack.database_url) as own:
            barrier.wait(30)
            trigger = register(own, name=name, type_="kafka", workflow=f"workflow-of-{name}", definition={})
            own.commit()
            return trigger

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(registered, range(4)))) == 1


def test_a_stream_keeps_its_number(connection: Connection, trigger: Trigger) -> None:
    number = stream_id(connection, trigger, "orders/0@id")
    assert stream_id(connection, trigger, "orders/0@id") == number
    assert stream_id(connection, trigger, "orders/0@other") != number


def test_two_writers_that_meet_a_new_stream_agree_on_its_number(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    number = stream_id(connection, trigger, "orders/0@id")
    with ThreadPoolExecutor(1) as pool, connect(stack.database_url) as own:
        second = pool.submit(stream_id, own, trigger, "orders/0@id")
        connection.commit()
        assert second.result(60) == number
