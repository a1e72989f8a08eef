"""The package as Airflow's provider manager and plugin manager see it."""

import json
import subprocess
from typing import Any

import pytest

from local_stack.stack import LocalStack

PACKAGE = "airflow-provider-workorders"


@pytest.fixture(scope="module")
def provider(airflow_stack: LocalStack) -> dict[str, Any]:
    """What `airflow providers get` prints."""
    (found,) = json.loads(airflow(airflow_stack, "providers", "get", PACKAGE, "--full", "--output", "json"))
    return dict(found)


def airflow(stack: LocalStack, *arguments: str) -> str:
    """Run Airflow's command line and return what it prints; what it complains of about us is a failure."""
    done = subprocess.run(
        ["airflow", *arguments], env=stack.environment(), capture_output=True, text=True, check=True, timeout=120
    )
    assert "workorders" not in "".join(
        line for line in done.stderr.splitlines() if "WARNING" in line.upper() or "ERROR" in line.upper()
    )
    return done.stdout


def test_the_provider_is_found_with_its_hook(provider: dict[str, Any]) -> None:
    assert "workorders.airflow.hooks.WorkOrdersHook" in json.dumps(provider)


def test_the_connection_type_is_offered(airflow_stack: LocalStack) -> None:
    hooks = json.loads(airflow(airflow_stack, "providers", "hooks", "--output", "json"))
    (ours,) = [hook for hook in hooks if hook["connection_type"] == "workorders"]
    assert "workorders.airflow.hooks.WorkOrdersHook" in ours.values()


def test_the_plugin_is_loaded_without_errors(airflow_stack: LocalStack) -> None:
    plugins = json.loads(airflow(airflow_stack, "plugins", "--output", "json"))
    assert "workorders" in {plugin["name"] for plugin in plugins}
