"""One stack whose Airflow keeps its own settings, as after its installation: paused Dags, example Dags, a login.

Its values make waits of minutes, so all tests here share it. Only how often it reads files again is not its own. It
starts when the other stacks with Airflow have ended.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import CHECKOUT, LocalStack
from support.airflow_api import AirflowApi
from support.dag_table import readme_trigger
from support.flow import Flow
from support.observed_trigger import ObservedTrigger

HERE = Path(__file__).parent


@pytest.fixture(scope="package")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A line for each callback that was called."""
    return tmp_path_factory.mktemp("calls") / "calls"


@pytest.fixture(scope="package")
def triggers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trigger of the README, which alerts soon, and those of these tests."""
    folder = tmp_path_factory.mktemp("triggers")
    for file in (HERE / "triggers").glob("*.yaml"):
        shutil.copy(file, folder)
    alerts = "alert_after: 2s\nnotify: [airflow_local_settings.alerted]\n"
    (folder / "orders.yaml").write_text(readme_trigger() + alerts, encoding="utf-8")
    return folder


@pytest.fixture(scope="package")
def stock_stack(request: pytest.FixtureRequest, triggers_folder: Path, calls: Path) -> Iterator[LocalStack]:
    """Postgres, Kafka, and Airflow with its own settings."""
    folders = (HERE / "settings", CHECKOUT / "include", CHECKOUT / "tests", CHECKOUT / "tools")
    with LocalStack(
        airflow=True,
        stock=True,
        triggers_folder=triggers_folder,
        workflows_folder=HERE / "workflows",
        environment={
            # No file changes here once it was read, and reading all example Dags every 30 seconds takes both cores.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
            "PYTHONPATH": ":".join(map(str, folders)),
            "STOCK_CALLS": str(calls),
        },
        name="stock",
    ) as stack:
        yield stack
        stack.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="package")
def api(stock_stack: LocalStack) -> Iterator[AirflowApi]:
    """Airflow's REST API, with the login that Airflow made."""
    client = AirflowApi(stock_stack.airflow_url, stock_stack.airflow_login)
    yield client
    client.close()


@pytest.fixture(scope="package")
def orders(stock_stack: LocalStack, api: AirflowApi) -> Flow:
    """The trigger of the README."""
    trigger = ObservedTrigger.on_stack(stock_stack, "orders", "orders")
    trigger.create_topic(1)
    return Flow(api, trigger)
