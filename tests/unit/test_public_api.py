"""What other programs may import."""

import importlib
import subprocess
import sys

import pytest

import workorders
from workorders import exceptions
from workorders.exceptions import WorkOrdersError

PUBLIC = {
    "workorders": {
        "Context",
        "CreateResult",
        "Created",
        "Item",
        "Rejection",
        "Trigger",
        "TriggerDefinition",
        "connect",
        "create_for",
        "create_one",
        "find_trigger",
        "publish",
        "migrate_schema",
        "workflow",
    },
    "workorders.outbox": {"OutboxMessage", "OutboxMessageError", "enqueue", "publish"},
    "workorders.exceptions": {
        "ConfigurationError",
        "DuplicateItemsError",
        "LimitReachedError",
        "NonRetryableError",
        "OutboxContradictionError",
        "OutboxDecisionError",
        "OutboxFencedError",
        "OutboxIdentityError",
        "OutboxMessageError",
        "SchemaError",
        "UnknownNameError",
        "WorkOrdersError",
    },
    "workorders.airflow": {
        "unlimited_retries",
        "work_orders_asset",
    },
    "workorders.airflow.dags": {
        "folder_modules",
        "maintenance_dags",
        "trigger_dags",
        "trigger_folder",
        "workflow_dags",
        "workflow_folder",
        "workflow_modules",
    },
    "workorders.kafka.airflow": {
        "CommitOffsetsOperator",
        "CreateWorkOrdersOperator",
        "PlanBatchOperator",
        "WaitForMessagesSensor",
        "make_dags",
        "outbox_dags",
    },
}
"""A name that disappears from here breaks a user's program, so that is a decision and not an accident."""

LOADED = """
import sys, workorders, workorders.kafka.airflow
from workorders.airflow import dags
heavy = {"airflow", "confluent_kafka", "psycopg", "pydantic", "pyspark", "sqlalchemy"}
print(*sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_declared_and_can_be_loaded(module: str) -> None:
    loaded = importlib.import_module(module)
    assert set(loaded.__all__) == PUBLIC[module]
    assert set(loaded.__all__) <= set(dir(loaded))
    for name in PUBLIC[module]:
        assert getattr(loaded, name) is not None


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Airflow imports every installed provider, in each of its processes."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'workorders' has no attribute 'nothing'"):
        _ = workorders.nothing  # type: ignore[attr-defined]


def test_every_public_error_has_one_root() -> None:
    assert all(issubclass(getattr(exceptions, name), WorkOrdersError) for name in exceptions.__all__)
