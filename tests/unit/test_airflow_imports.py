"""What the package imports of Airflow: its public interface, and the rest in three modules."""

import ast
import re
from collections.abc import Iterator

from airflow import sdk

from support.sources import modules

PUBLIC = {f"airflow.sdk.{name}" for name in sdk.__all__}
"""What the reference of the task SDK lists."""
PUBLIC_MODULES = re.compile(
    r"airflow\.(sdk\.(exceptions|observability|types)|plugins_manager|triggers\.base|dag_processing\.bundles\.base"
    r"|providers)\."
)
"""What the other pages of Airflow's documentation import."""


def imported(module: ast.Module) -> Iterator[str]:
    """Give everything that a module imports, with the modules from which it does."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_internal(name: str) -> bool:
    return f"{name}.".startswith("airflow.") and name not in PUBLIC and not PUBLIC_MODULES.match(name)


def test_one_module_each_for_tasks_api_server_and_database_imports_what_is_internal_to_airflow() -> None:
    found = {path for path, module in modules() if any(map(is_internal, imported(module)))}
    assert found == {"airflow/api_server.py", "airflow/dag_runs/client.py", "airflow/metadata.py"}
