"""The commands of "Add it to your Airflow", in their order, in an Airflow with its own settings and its own Dag.

The first command, which installs the wheel, is the one of `wheel.install`. pytest -s shows the time of each step.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from local_stack import wheel
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.documents import DOCS, blocks
from support.eventually import eventually
from support.topics import Topics

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PAGE = DOCS / "getting-started" / "add-to-your-airflow.md"
FROM_THE_STACK = (
    "WORKORDERS_DATABASE_URL",
    "WORKORDERS_KAFKA",
    *(f"AIRFLOW_CONN_{name}" for name in ("KAFKA_DEFAULT", "WORKORDERS_DB", "SPARK_DEFAULT")),
)
"""What the stack tells its programs, and the page lets a person say."""
DATABASE = "first_hour"
_SECONDS = 600
_REFRESH_SECONDS = 200


@pytest.fixture(scope="module")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Dags that are there before, and the one that sends a message."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "send_order.py").write_text(blocks(PAGE, "python")[-1], "utf-8")
    (folder / "mine.py").write_text("from airflow.sdk import DAG\n\nmine = DAG('mine', schedule=None)\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, dags_folder: Path) -> Iterator[LocalStack]:
    """The installed wheel beside Airflow, which has no connections and its default bundle."""
    made = wheel.install(tmp_path_factory.mktemp("wheel"))
    bundle = {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}
    environment = {
        **made.environment,
        **dict.fromkeys(FROM_THE_STACK, ""),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
    }
    with LocalStack(airflow=True, stock=True, programs=made.programs, environment=environment, name="page") as running:
        yield running


@pytest.fixture(scope="module")
def commands(installed: LocalStack) -> Iterator[str]:
    """The shell blocks of the page, with the addresses of the stack in the places of the page's."""
    url = installed.postgres.url("postgres")
    port = conninfo_to_dict(url)["port"]
    places = {
        "postgresql://postgres:secret@db.example/postgres": url,
        "postgresql://postgres:secret@db.example/workorders": installed.postgres.url(DATABASE, role="postgres"),
        "CREATE DATABASE workorders;": f"CREATE DATABASE {DATABASE};",
        '"host": "db.example", "schema": "workorders"': f'"host": "127.0.0.1", "port": {port}, "schema": "{DATABASE}"',
        "broker:9092": installed.bootstrap_servers,
    }
    text = "\0".join(blocks(PAGE, "sh"))
    for of_the_page, of_the_stack in places.items():
        assert of_the_page in text
        text = text.replace(of_the_page, of_the_stack)
    return iter(text.split("\0"))


def test_six_commands_and_a_message_lead_from_an_airflow_to_the_log_of_a_function(
    installed: LocalStack, commands: Iterator[str], dags_folder: Path, tmp_path: Path
) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed, by which the page sends its message; install Debian's package kcat.")
    Topics(installed.kafka_settings).create("orders", 3)

    def run(command: str) -> str:
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env={**installed.environment(), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        print(f"{time.monotonic() - began:6.1f} s  {command.splitlines()[0]}")
        return done.stdout

    def until_succeeded(count: int, sent: datetime) -> str:
        """Wait for so many runs, and return the id of the newest one."""

        def newest() -> dict[str, str] | None:
            found = [row for row in json.loads(run(f"{listing} --json")) if row["state"] == "success"]
            return found[0] if len(found) == count else None

        ended = eventually(newest, seconds=_SECONDS, what=f"the success of {count} runs")
        assert ended is not None
        seconds = (datetime.fromisoformat(ended["finished_at"]) - sent).total_seconds()
        print(f"{seconds:6.1f} s  from the message to the end of its function")
        return ended["id"]

    assert next(commands).startswith("pip freeze")
    run(next(commands))
    assert "The tables are at version" in run(next(commands))
    run(next(commands))
    assert str(dags_folder / "orders" / "dags") in run(next(commands))
    # Airflow looks for new files every 300 s, and `init` has asked for it at once.
    begun = time.monotonic()
    run(next(commands))
    assert time.monotonic() - begun < _REFRESH_SECONDS
    send = next(commands)
    listing, show = next(commands).splitlines()
    assert next(commands, None) is None
    sent = datetime.now(UTC)
    run(send)
    shown = run(show.replace("RUN", until_succeeded(1, sent)))
    assert "shipping order 7" in shown
    assert '"shipped": 7' in shown
    sent = datetime.now(UTC)
    run("airflow tasks test send_order send")
    until_succeeded(2, sent)
    with closing(AirflowApi(installed.airflow_url, installed.airflow_login)) as api:
        assert {"mine", "orders_listener"} <= {dag["dag_id"] for dag in api.get("/dags", limit=100)["dags"]}
