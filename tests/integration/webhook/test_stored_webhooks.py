"""The webhooks of the database: a deployment stores them, and servers follow them."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from local_stack.ports import accepts_connections, free_port
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.command import Command
from support.webhooks import SECRET, Webhooks
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.stored_webhooks import apply, list_stored

pytestmark = pytest.mark.integration

START_SECONDS = 120.0


def webhook(name: str, path: str = "", **fields: Any) -> WebhookTriggerDefinition:
    content = {"name": name, "path": path, "workflow": "admit", "authentication": "public", **fields}
    return WebhookTriggerDefinition.model_validate(content)


def store(connection: Connection, *definitions: WebhookTriggerDefinition) -> Mapping[str, str]:
    with connection.transaction():
        return apply(connection, definitions)


@pytest.fixture
def served(stack: LocalStack) -> Iterator[Webhooks]:
    """A server whose webhooks are those of the stack's database."""
    running = Webhooks({"workorders_db": stack.database_url}, from_database=True)
    with running.client:
        yield running
    running.close()


def test_the_webhooks_of_the_database_become_exactly_those_that_are_applied(connection: Connection) -> None:
    store(connection)
    assert store(connection, webhook("a"), webhook("b")) == {"a": "stored", "b": "stored"}
    assert store(connection, webhook("a"), webhook("b", enabled=False)) == {"a": "unchanged", "b": "stored"}
    assert store(connection, webhook("b", enabled=False)) == {"a": "removed", "b": "unchanged"}
    assert [(found.name, found.path) for found in list_stored(connection)] == [("b", "b")]


@pytest.mark.parametrize("type_", ["api_key", "basic", "hmac", "standard_webhooks", "stripe", "slack"])
def test_a_webhook_of_each_method_is_served_as_it_was_stored(
    served: Webhooks, connection: Connection, name: str, type_: str
) -> None:
    store(connection, webhook(name, authentication={"type": type_, "connection": "shop"}))
    answer = served.post(name, Content_Type="application/json")
    assert (answer.status_code, answer.json()["error"]) == (401, "not-authenticated")


def test_two_webhooks_may_exchange_their_paths(connection: Connection) -> None:
    store(connection, webhook("a", "one"), webhook("b", "two"))
    store(connection, webhook("a", "two"), webhook("b", "one"))
    assert [(found.name, found.path) for found in list_stored(connection)] == [("a", "two"), ("b", "one")]


def test_two_webhooks_with_one_path_are_refused_and_nothing_changes(connection: Connection) -> None:
    store(connection, webhook("a", "one"))
    with pytest.raises(ConfigurationError, match="one is already the path of webhook b; nothing was stored"):
        store(connection, webhook("b", "one"), webhook("c", "one"))
    assert [found.name for found in list_stored(connection)] == ["a"]


def test_a_server_follows_the_database(served: Webhooks, connection: Connection, name: str) -> None:
    store(connection)
    assert served.post(name).status_code == 404
    store(connection, webhook(name))
    assert served.post(name).status_code == 201
    store(connection, webhook(name, "elsewhere"))
    assert [served.post(path).status_code for path in (name, "elsewhere")] == [404, 201]
    store(connection, webhook(name, "elsewhere", enabled=False))
    assert served.post("elsewhere").json()["error"] == "disabled"
    store(connection)
    assert served.post("elsewhere").status_code == 404


def test_a_definition_that_this_version_cannot_read_closes_its_webhook_and_no_other(
    served: Webhooks, connection: Connection, name: str
) -> None:
    store(connection, webhook(name), webhook(f"{name}-2"))
    connection.execute(
        """
        UPDATE workorders.webhooks
        SET definition = definition || '{"unknown": 1}', stored_at = clock_timestamp()
        WHERE name = %s
        """,
        (name,),
    )
    connection.commit()
    found = [served.post(path) for path in (name, f"{name}-2")]
    assert [answer.status_code for answer in found] == [503, 201]
    assert found[0].json()["error"] == "not-known-now"


def test_without_its_tables_the_database_is_not_ready_and_callers_are_told_to_retry(
    stack: LocalStack, name: str
) -> None:
    stack.postgres.create_database(name)
    url = stack.postgres.url(name)
    away = f"postgresql://a:b@127.0.0.1:{free_port()}/a"
    for database, code in ((url, "not-set-up"), (away, "database-unavailable")):
        running = Webhooks({"workorders_db": database}, from_database=True)
        with running.client:
            answer = running.post(name)
        running.close()
        assert (answer.status_code, answer.json()["error"]) == (503, code)
        assert int(answer.headers["retry-after"]) > 0


def test_a_server_of_its_own_serves_what_a_deployment_has_stored(
    stack: LocalStack,
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {"name": name, "type": "webhook", "workflow": "admit", "path": "shop/orders"}
    method = {"type": "api_key", "connection": "shop"}
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump({**fields, "authentication": method}), encoding="utf-8")
    (tmp_path / "nightly.yaml").write_text(
        yaml.safe_dump({"name": f"{name}-nightly", "type": "manual", "workflow": "admit"}), encoding="utf-8"
    )
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", stack.database_url)
    workorders = Command(monkeypatch, capsys)
    applied = workorders("webhooks", "apply", str(tmp_path))
    assert (applied.code, applied.out.splitlines()[0]) == (0, f"webhook {name}: stored")
    assert [found["name"] for found in workorders("webhooks", "list", "--json").json()] == [name]
    file.write_text(yaml.safe_dump({**fields, "authentication": "open"}), encoding="utf-8")
    refused = workorders("webhooks", "apply", str(tmp_path))
    assert (refused.code, "authentication: expected public" in refused.err) == (1, True)

    port = free_port()
    environment = {
        **stack.environment(),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW_CONN_WORKORDERS_DB": stack.database_url,
        "AIRFLOW_CONN_SHOP": f"generic://:{SECRET}@",
    }
    command = [sys.executable, "-m", "workorders.cli.main", "webhooks", "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment) as server:
        try:
            assert wait_until(lambda: accepts_connections(port) or server.poll() is not None, seconds=START_SECONDS)
            url = f"http://127.0.0.1:{port}/workorders/webhooks/shop/orders"
            codes = [
                httpx.post(url, json={"a": 1}, headers={"X-Api-Key": key}, timeout=60).status_code
                for key in (SECRET, "wrong")
            ]
        finally:
            server.terminate()
    assert codes == [201, 401]
