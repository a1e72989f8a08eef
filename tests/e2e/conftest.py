"""One stack with the real Airflow for all tests here, with one trigger a subject, so none disturbs another.

It ends with the last test of this folder, which must be a package for that: an idle Airflow takes a good part of a
core from whatever is tested next.
"""

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import CHECKOUT, LocalStack
from support.airflow_api import AirflowApi, Run
from support.command_lines import CommandLines
from support.documents import DOCS, blocks
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import INVALID, ObservedTrigger, Place, some_events
from workorders.monitoring.api import TOKEN_VARIABLE

HERE = Path(__file__).parent
PARTITIONS = {
    "orders": 3,
    "stalls": 2,
    "own": 1,
    "decisions": 1,
    "clicks": 1,
    "components": 2,
    "backlog": 2,
    "late": 2,
}

_FIRST = ("test_mistakes.py", "test_path.py", "test_stalls.py")
"""Tasks that fail: their first tries follow soon, and the later ones pass during other tests. Between them, the module
that counts all messages of `orders`, of which others send more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that would have to wait later."""
    places = [place for place, item in enumerate(items) if item.path.parent == HERE]
    ordered = sorted((items[place] for place in places), key=lambda item: [item.path.name != name for name in _FIRST])
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


@pytest.fixture(scope="package")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's DAG files, and the tests' own and the documents' Dag on an asset next to them."""
    folder = tmp_path_factory.mktemp("dags")
    for file in [*(CHECKOUT / "dags").glob("*.py"), *(HERE / "dags").glob("*.py")]:
        shutil.copy(file, folder)
    shown = blocks(DOCS / "how-to" / "extend" / "build-your-own-dags.md", "python")
    (example,) = (block for block in shown if 'work_orders_asset("orders")' in block)
    (folder / "after_orders.py").write_text(example.replace('"orders"', '"own"'), encoding="utf-8")
    return folder


@pytest.fixture(scope="package")
def metrics_token() -> str:
    """The token with which the API server shows its metrics."""
    return secrets.token_urlsafe()


@pytest.fixture(scope="package")
def airflow_stack(request: pytest.FixtureRequest, dags_folder: Path, metrics_token: str) -> Iterator[LocalStack]:
    """Postgres, Kafka, and Airflow with the triggers of these tests."""
    with LocalStack(
        airflow=True,
        spark_connect=True,
        dags_folder=dags_folder,
        triggers_folder=HERE / "triggers",
        workflows_folder=HERE / "workflows",
        # No file changes here once it was read, and reading them all again every five seconds takes a third of a core.
        environment={
            # With as many Dags as here, five looks a second take a good part of a core.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
            "WORKORDERS_OUTBOX": str(HERE / "outbox.yaml"),
            TOKEN_VARIABLE: metrics_token,
        },
        name="end-to-end",
    ) as stack:
        yield stack
        stack.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="package")
def api(airflow_stack: LocalStack) -> Iterator[AirflowApi]:
    """Airflow's REST API."""
    client = AirflowApi(airflow_stack.airflow_url)
    yield client
    client.close()


@pytest.fixture(scope="package")
def triggers(airflow_stack: LocalStack) -> dict[str, ObservedTrigger]:
    """Every trigger that has a topic, by name."""
    found = {
        name: ObservedTrigger(
            name,
            f"e2e.{name}",
            kafka_settings=airflow_stack.kafka_settings,
            database_url=airflow_stack.database_url,
        )
        for name in PARTITIONS
    }
    for name, trigger in found.items():
        trigger.create_topic(PARTITIONS[name])
    return found


@pytest.fixture(scope="package", autouse=True)
def command_lines(airflow_stack: LocalStack) -> Iterator[CommandLines]:
    """Every command line of the stack's processes since its start."""
    with CommandLines(airflow_stack.supervisor_pid) as collected:
        yield collected


@pytest.fixture(scope="package")
def orders(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger of everything that goes well."""
    return Flow(api, triggers["orders"])


@pytest.fixture(scope="package")
def ordered(orders: Flow) -> list[Place]:
    """The messages of the first batches of `orders`: valid and invalid ones, and an aborted transaction among them."""
    trigger = orders.trigger
    places = trigger.produce(some_events(300, 3))
    trigger.produce_and_abort(some_events(30, 3))
    places += trigger.produce((0, value) for value in INVALID.values())
    places += trigger.produce(some_events(300, 3, first=300))
    orders.until_ingested(places)
    return places


@pytest.fixture(scope="package")
def stalls(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger of which a partition stalls."""
    return Flow(api, triggers["stalls"])


@pytest.fixture(scope="package")
def half_lost(stalls: Flow) -> list[Place]:
    """Messages of both partitions that are planned as one batch, of which partition 0's are deleted before the read."""
    with stalls.held_back(some_events(100, 2)) as places:
        stalls.trigger.delete_before(0, stalls.trigger.last_stable_offsets()[0])
    return places


@pytest.fixture(scope="package")
def stalled(stalls: Flow, half_lost: list[Place]) -> Run:
    """The ingest run of the partition that stalls, which has failed at least once."""
    run = stalls.ingest_runs()[0]
    eventually(
        lambda: stalls.create(run).try_number > 1 or stalls.create(run).state == "up_for_retry",
        seconds=SECONDS,
        what=f"a failed try of {run.id}",
    )
    return run


@pytest.fixture
def one_worker(api: AirflowApi) -> Iterator[None]:
    """One slot for all tasks of all DAGs."""
    slots = api.slots("default_pool")
    api.set_slots("default_pool", 1)
    yield
    api.set_slots("default_pool", slots)
