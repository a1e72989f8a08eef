"""Airflow with its own settings and nothing but the wheel: no checkout, no Dag files, no jars."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from local_stack.stack import CHECKOUT, LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from support.observed_trigger import ObservedTrigger
from support.wheel import build_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_UV = Path(sys.executable).with_name("uv")
_SECONDS = 600
_COUNT = 20
_FROM_THE_CHECKOUT = ("PYTHONPATH", "WORKORDERS_TRIGGERS", "WORKORDERS_WORKFLOWS", "WORKORDERS_SPARK_APPS")
_JARS = "WORKORDERS_SPARK_JARS"
_UNPAUSED = ("orders_listener", "orders_ingest", "ship_runs")
_DAGS = (*_UNPAUSED, "workorders_resolve", "workorders_retention", "outbox_relay")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment into which the wheel was installed, as the installation page says."""
    home = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(home / "source")
    run(_UV, "venv", "--quiet", "--python", sys.executable, str(home / "environment"))
    run(
        *(
            _UV,
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(home / "environment" / "bin" / "python"),
        ),
        *(f"{wheel}[airflow,kafka,spark]", "--constraint", str(CHECKOUT / "constraints.txt")),
    )
    return home / "environment" / "bin"


@pytest.fixture(scope="module")
def definitions(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("definitions") / "workorders"
    run(programs / "workorders", "init", str(folder))
    return folder


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, programs: Path, definitions: Path) -> Iterator[LocalStack]:
    bundle = {
        "name": "workorders",
        "classpath": "workorders.airflow.bundle.WorkOrdersDagBundle",
        "kwargs": {"folder": str(definitions)},
    }
    with LocalStack(
        airflow=True,
        stock=True,
        programs=programs,
        environment={
            **dict.fromkeys((*_FROM_THE_CHECKOUT, _JARS), ""),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        },
        name="wheel",
    ) as stack:
        yield stack
        stack.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="module")
def api(installed: LocalStack) -> Iterator[AirflowApi]:
    passwords = installed.airflow.home / "simple_auth_manager_passwords.json.generated"
    client = AirflowApi(installed.airflow_url, ("admin", json.loads(passwords.read_text(encoding="utf-8"))["admin"]))
    yield client
    client.close()


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]


def test_messages_become_work_orders_that_are_executed(installed: LocalStack, api: AirflowApi) -> None:
    orders = ObservedTrigger(
        "orders", "orders", kafka_settings=installed.kafka_settings, database_url=installed.database_url
    )
    orders.create_topic(2)
    places = orders.produce([(number % 2, b'{"order": %d}' % number) for number in range(_COUNT)])
    assert wait_until(lambda: all(is_known(api, dag) for dag in _DAGS), seconds=_SECONDS), api.import_errors()
    assert api.import_errors() == []
    for dag in _UNPAUSED:
        api.set_paused(dag, False)
    assert wait_until(lambda: orders.has_all(places), seconds=_SECONDS)
    assert wait_until(lambda: finished(installed) == _COUNT, seconds=_SECONDS)
    assert orders.count() == _COUNT


def is_known(api: AirflowApi, dag: str) -> bool:
    try:
        return bool(api.get(f"/dags/{dag}"))
    except httpx.HTTPStatusError:
        return False


def finished(stack: LocalStack) -> int:
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM workorders.work_orders WHERE state = 'success'").fetchone()
    return int(row[0]) if row else 0
