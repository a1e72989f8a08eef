"""`make up WHEEL=1`: Airflow with its own settings, and the wheel without a checkout and without jars.

Each test runs with our constraints, and with the versions of the day on which Airflow was released. Airflow's own
constraints are made in this way, by resolving Airflow and its providers on that day; their file is on GitHub only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from local_stack import wheel
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from support.observed_trigger import ObservedTrigger

pytestmark = [pytest.mark.e2e, pytest.mark.long]

BUNDLES = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
SECRET = "kept-from-yaml"
RELEASED = {"3.3.2": "2026-09-18"}
"""The day after each version of Airflow was released: packages that are newer did not exist for it."""
PROVIDERS = ("apache-kafka", "apache-spark", "postgres", "standard")
_SECONDS = 600
_COUNT = 20
_UNPAUSED = ("orders_listener", "orders_ingest", "ship_runs")
_DAGS = (*_UNPAUSED, "workorders_resolve", "workorders_retention", "outbox_relay")


@pytest.fixture(scope="module", params=["our constraints", "Airflow's day"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> wheel.Installation:
    folder = tmp_path_factory.mktemp("wheel")
    if request.param == "our constraints":
        return wheel.install(folder)
    return wheel.install(folder, constraints_of_airflows_day(folder / "constraints.txt"))


def constraints_of_airflows_day(file: Path) -> Path:
    """Write the versions that Airflow and its providers had on the day of the release, and return the file."""
    airflow = version("apache-airflow")
    # The Spark provider wants pyspark-client alone, and pip would add a PySpark of another version.
    wanted = [f"apache-airflow=={airflow}", "pyspark", *(f"apache-airflow-providers-{name}" for name in PROVIDERS)]
    subprocess.run(
        [
            *(Path(sys.executable).with_name("uv"), "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *("--python", sys.executable, "--exclude-newer", RELEASED[airflow], "--output-file", file, "-"),
        ],
        input="\n".join(wanted),
        text=True,
        check=True,
    )
    return file


@pytest.fixture(scope="module")
def own_folder(made: wheel.Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Dag files; none of its Dags has the id of one of the provider's bundle, which runs as well."""
    folder = tmp_path_factory.mktemp("own")
    command: list[str | Path] = [made.programs / "workorders", "init", "--dag-files", folder]
    subprocess.run(command, env={**os.environ, **made.environment}, check=True, capture_output=True)
    for of_the_bundle in ("history", "outbox", "resolve"):
        (folder / "dags" / f"workorders_{of_the_bundle}.py").unlink()
    function = (folder / "shipping.py").read_text(encoding="utf-8").replace("def ship(", "def admit(")
    (folder / "admitting.py").write_text(function, encoding="utf-8")
    for example in ("shipping.py", "test_shipping.py"):
        (folder / example).unlink()
    trigger = {"name": "visits", "type": "kafka", "workflow": "admit", "topics": ["visits"]}
    (folder / "triggers" / "orders.yaml").write_text(yaml.safe_dump(trigger), encoding="utf-8")
    # The tests send before anybody listens.
    first = made.definitions / "triggers" / "orders.yaml"
    first.write_text(first.read_text(encoding="utf-8").replace("latest", "earliest"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, made: wheel.Installation, own_folder: Path) -> Iterator[LocalStack]:
    """Tables that the installed package has made, and an Airflow with the provider's bundle and with another one."""
    own_bundle = {"name": "own", "classpath": LOCAL_BUNDLE, "kwargs": {"path": str(own_folder / "dags")}}
    bundles = [*json.loads(made.environment[BUNDLES]), own_bundle]
    environment = {
        **made.environment,
        BUNDLES: json.dumps(bundles),
        "AIRFLOW_CONN_SHOP_WEBHOOK": json.dumps({"conn_type": "generic", "password": SECRET}),
    }
    with LocalStack(airflow=True, stock=True, programs=made.programs, environment=environment, name="wheel") as stack:
        yield stack
        stack.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="module")
def api(installed: LocalStack) -> Iterator[AirflowApi]:
    client = AirflowApi(installed.airflow_url, installed.airflow_login)
    yield client
    client.close()


def test_messages_become_work_orders_that_are_executed(installed: LocalStack, api: AirflowApi) -> None:
    orders = ObservedTrigger.on_stack(installed, "orders", "orders")
    orders.create_topic(2)
    places = orders.produce([(number % 2, b'{"order": %d}' % number) for number in range(_COUNT)])
    assert wait_until(lambda: all(is_known(api, dag) for dag in _DAGS), seconds=_SECONDS), api.import_errors()
    assert api.import_errors() == []
    for dag in _UNPAUSED:
        api.set_paused(dag, False)
    assert wait_until(lambda: orders.has_all(places), seconds=_SECONDS)
    assert wait_until(lambda: finished(installed) == _COUNT, seconds=_SECONDS)
    assert orders.count() == _COUNT


def test_an_api_server_without_a_folder_serves_the_webhooks_that_were_stored_in_the_database(
    made: wheel.Installation, installed: LocalStack, api: AirflowApi, tmp_path: Path
) -> None:
    def post(key: str) -> httpx.Response:
        url = f"{installed.airflow_url}/workorders/hooks/shop"
        return httpx.post(url, json={"order": 17}, headers={"X-Api-Key": key}, timeout=60, trust_env=False)

    assert post(SECRET).status_code == 404
    webhook = {"name": "shop", "type": "webhook", "workflow": "ship"}
    by_key = {"type": "api_key", "connection": "shop_webhook"}
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump({**webhook, "authentication": by_key}), encoding="utf-8")
    command: list[str | Path] = [made.programs / "workorders", "hooks", "apply", tmp_path]
    applied = subprocess.run(command, env=installed.environment(), capture_output=True, text=True, check=False)
    assert (applied.returncode, applied.stdout) == (0, "webhook shop: stored\n"), applied.stderr
    assert wait_until(lambda: post("another").status_code == 401, seconds=_SECONDS)
    answer = post(SECRET)
    assert answer.status_code == 201
    assert wait_until(lambda: is_known(api, "ship_runs"), seconds=_SECONDS), api.import_errors()
    api.set_paused("ship_runs", False)
    assert wait_until(lambda: state(installed, answer.json()["work_order_id"]) == "success", seconds=_SECONDS)


def test_dag_files_that_init_writes_are_loaded_from_a_bundle_of_ones_own(api: AirflowApi) -> None:
    dags = ("visits_listener", "visits_ingest", "admit_runs")
    assert wait_until(lambda: all(is_known(api, dag) for dag in dags), seconds=_SECONDS), api.import_errors()
    assert api.import_errors() == []


def is_known(api: AirflowApi, dag: str) -> bool:
    try:
        return bool(api.get(f"/dags/{dag}"))
    except httpx.HTTPStatusError:
        return False


def state(stack: LocalStack, work_order_id: str) -> str:
    with psycopg.connect(stack.database_url) as connection:
        query = "SELECT state FROM workorders.work_orders WHERE id = %s"
        row = connection.execute(query, (work_order_id,)).fetchone()
    return str(row[0]) if row else ""


def finished(stack: LocalStack) -> int:
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM workorders.work_orders WHERE state = 'success'").fetchone()
    return int(row[0]) if row else 0
