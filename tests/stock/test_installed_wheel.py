"""`make up WHEEL=1`: an Airflow with its own settings, to which the wheel comes, without a checkout and without jars.

Each test runs next to several releases of Airflow, which were installed by the constraints of their release.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from local_stack import wheel
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from support.airflow_releases import HERE, constraints_of_the_day, find_python
from support.installed_command import options_here, options_of
from support.observed_trigger import ObservedTrigger

pytestmark = pytest.mark.e2e

SECRET = "kept-from-yaml"
OWN = Path(__file__).with_name("airflow_constraints")
_SECONDS = 600
_COUNT = 20
_SWITCH = "orders_listener"
_DAGS = (_SWITCH, "orders_ingest", "ship_runs", "workorders_maintenance", "workorders_outbox_0")
_LOAD = """
import json, sys
from airflow.dag_processing.dagbag import BundleDagBag
bag = BundleDagBag(sys.argv[1], bundle_path=sys.argv[1], bundle_name="workorders")
print(json.dumps({"dags": sorted(bag.dags), "errors": bag.import_errors}))
"""
"""What Airflow's Dag processor makes of a folder."""
_THEIRS = """
from airflow.sdk import DAG, task

with DAG("theirs", schedule=None, is_paused_upon_creation=False):

    @task
    def work() -> str:
        return "done"

    work()
"""


def on_the_day(release: str, python: str, folder: Path, *others: str) -> wheel.Stock:
    """Return an Airflow with the versions of the day of its release, and with some distributions more."""
    program = find_python(python)
    if program is None:
        pytest.skip(f"no Python {python} is installed here")
    constraints = constraints_of_the_day(release, python, folder / "constraints.txt")
    stock = wheel.Stock(airflow=release, python=program, constraints=constraints)
    return replace(stock, others=(*stock.others, *others))


def by_its_own(release: str) -> wheel.Stock:
    """Return an Airflow on Python 3.12 with the versions of Airflow's own constraints.

    Without the pandas of 3.3.0, which is too old for Spark 4.2: who has it lets pip replace it.
    """
    program = find_python("3.12")
    if program is None:
        pytest.skip("no Python 3.12 is installed here")
    postgres = ("apache-airflow-providers-postgres",)
    return wheel.Stock(airflow=release, python=program, constraints=OWN / f"{release}.txt", others=postgres)


LANES: dict[str, Callable[[Path], wheel.Stock]] = {
    # The Spark provider is there before, and with it the client of PySpark.
    "3.3.2": lambda folder: on_the_day("3.3.2", HERE, folder, "apache-airflow-providers-apache-spark"),
    "3.3.1 on Python 3.13": lambda folder: on_the_day("3.3.1", "3.13", folder),
    "3.3.0 on Python 3.12": lambda _: by_its_own("3.3.0"),
    "3.2.2 on Python 3.12": lambda folder: on_the_day("3.2.2", "3.12", folder),
    "our constraints": lambda _: wheel.Stock(),
}
SHORT = "3.3.2"
"""That of `make test`."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[] if name == SHORT else pytest.mark.long) for name in LANES]
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> wheel.Installation:
    folder = tmp_path_factory.mktemp("wheel")
    return wheel.install(folder, LANES[request.param](folder))


@pytest.fixture(scope="module")
def their_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's folder of Dags, with one that was there before."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "theirs.py").write_text(_THEIRS, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, made: wheel.Installation, their_folder: Path) -> Iterator[LocalStack]:
    """Tables that the installed package has made, and an Airflow with the folder of definitions and its own Dags."""
    # The tests send before anybody listens.
    first = made.definitions / "triggers" / "orders.yaml"
    first.write_text(first.read_text(encoding="utf-8").replace("latest", "earliest"), encoding="utf-8")
    environment = {
        **made.environment,
        "AIRFLOW__CORE__DAGS_FOLDER": str(their_folder),
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


def test_nothing_that_was_there_has_changed(made: wheel.Installation) -> None:
    assert made.before > set()
    assert made.before - made.distributions() == set()


def test_the_commands_and_their_options_are_those_of_other_versions_of_typer(made: wheel.Installation) -> None:
    assert options_of(made.programs) == options_here()


def test_its_airflow_makes_the_dags_of_the_definitions(made: wheel.Installation, tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("WORKORDERS_", "AIRFLOW"))}
    environment = {**own, **made.environment, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    command: list[str | Path] = [made.programs / "python", "-c", _LOAD, made.definitions / "dags"]
    loaded = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(loaded.stdout.splitlines()[-1])
    assert found["errors"] == {}
    assert set(_DAGS) <= set(found["dags"])


@pytest.mark.long
def test_messages_come_to_the_log_of_the_function(installed: LocalStack, api: AirflowApi) -> None:
    orders = ObservedTrigger.on_stack(installed, "orders", "orders")
    orders.create_topic(2)
    places = orders.produce([(number % 2, b'{"order": %d}' % number) for number in range(_COUNT)])
    assert wait_until(lambda: all(map(api.knows, _DAGS)), seconds=_SECONDS), api.import_errors()
    assert api.import_errors() == []
    api.set_paused(_SWITCH, False)
    assert wait_until(lambda: orders.has_all(places), seconds=_SECONDS)
    assert wait_until(lambda: finished(installed) == _COUNT, seconds=_SECONDS)
    assert orders.count() == _COUNT
    with psycopg.connect(installed.database_url) as connection:
        logs = "\n".join(log for (log,) in connection.execute("SELECT log FROM workorders.run_results"))
    assert {int(number) for number in re.findall(r"shipping order (\d+)", logs)} == set(range(_COUNT))


@pytest.mark.long
def test_a_dag_that_was_there_still_runs(api: AirflowApi) -> None:
    assert wait_until(lambda: api.knows("theirs"), seconds=_SECONDS), api.import_errors()
    api.trigger("theirs", {})
    assert wait_until(lambda: [run.state for run in api.runs("theirs")] == ["success"], seconds=_SECONDS)


@pytest.mark.long
def test_the_api_server_serves_the_webhooks_that_were_stored_in_the_database(
    made: wheel.Installation, installed: LocalStack, api: AirflowApi, tmp_path: Path
) -> None:
    def post(key: str) -> httpx.Response:
        url = f"{installed.airflow_url}/workorders/webhooks/shop"
        return httpx.post(url, json={"order": 17}, headers={"X-Api-Key": key}, timeout=60, trust_env=False)

    assert post(SECRET).status_code == 404
    webhook = {"name": "shop", "type": "webhook", "workflow": "ship"}
    by_key = {"type": "api_key", "connection": "shop_webhook"}
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump({**webhook, "authentication": by_key}), encoding="utf-8")
    command: list[str | Path] = [made.programs / "workorders", "webhooks", "apply", tmp_path]
    applied = subprocess.run(command, env=installed.environment(), capture_output=True, text=True, check=False)
    assert (applied.returncode, applied.stdout) == (0, "webhook shop: stored\n"), applied.stderr
    assert wait_until(lambda: post("another").status_code == 401, seconds=_SECONDS)
    answer = post(SECRET)
    assert answer.status_code == 201
    assert wait_until(lambda: api.knows("ship_runs"), seconds=_SECONDS), api.import_errors()
    api.set_paused("ship_runs", False)
    assert wait_until(lambda: state(installed, answer.json()["work_order_id"]) == "success", seconds=_SECONDS)


def state(stack: LocalStack, work_order_id: str) -> str:
    with psycopg.connect(stack.database_url) as connection:
        query = "SELECT state FROM workorders.work_orders WHERE id = %s"
        row = connection.execute(query, (work_order_id,)).fetchone()
    return str(row[0]) if row else ""


def finished(stack: LocalStack) -> int:
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM workorders.work_orders WHERE state = 'success'").fetchone()
    return int(row[0]) if row else 0
