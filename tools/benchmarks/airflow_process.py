"""Programs that use Airflow's classes without a running Airflow: a process with a home and its own connections."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from local_stack.stack import CHECKOUT, LocalStack

_TIMEOUT_SECONDS = 600


def run_module(
    stack: LocalStack, module: str, arguments: Mapping[str, Any], *, kafka: Mapping[str, str] | None = None
) -> str:
    """Run a module with `arguments` as JSON on its standard input; return the last line that it prints.

    Raises:
        RuntimeError: it failed.
    """
    home = stack.home / "airflow-classes"
    home.mkdir(exist_ok=True)
    environment = {
        **stack.environment(),
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "provider"), os.environ.get("PYTHONPATH", "")]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": stack.bootstrap_servers, **(kafka or {})}}
        ),
        "AIRFLOW_CONN_WORKORDERS_DB": _postgres_connection(stack.database_url),
    }
    finished = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{module} failed:\n{finished.stderr[-4000:]}")
    return finished.stdout.splitlines()[-1]


def _postgres_connection(url: str) -> str:
    parts = urlsplit(url)
    return json.dumps(
        {
            "conn_type": "postgres",
            "host": parts.hostname,
            "port": parts.port,
            "login": parts.username,
            "password": parts.password,
            "schema": parts.path.lstrip("/"),
        }
    )
