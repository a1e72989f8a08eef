"""Spark as the ingest Dag uses it: `spark-submit` on a given number of cores, and a driver on a running server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from local_stack.stack import CHECKOUT, LocalStack
from support.attempt_on_server import ON_SERVER
from support.spark_submit import submit_command

APPLICATION = CHECKOUT / "spark_apps" / "create_work_orders.py"
_TIMEOUT_SECONDS = 900.0


def submit(
    stack: LocalStack,
    application: Path,
    arguments: Sequence[str],
    while_running: Callable[[psutil.Process], None],
) -> float:
    """Submit an application and wait for its end; return the seconds from its start to its end.

    Args:
        stack: where it works; the application gets the stack's environment.
        application: the Python file.
        arguments: what the application is told.
        while_running: called once, in another thread, with the process as soon as it runs.

    Raises:
        RuntimeError: the application failed.
    """
    command = submit_command(",".join(map(str, stack.spark_jars)), application, arguments)
    return _run(stack, application.name, command, {"PYTHONPATH": _python_path()}, while_running)


def run_on_server(
    stack: LocalStack,
    arguments: Sequence[str],
    variables: Mapping[str, str] | None,
    while_running: Callable[[psutil.Process], None],
) -> float:
    """Make an attempt at a batch on the stack's Spark Connect server; return the seconds of the whole driver process.

    Args:
        stack: where it works; its server runs.
        arguments: those of the application.
        variables: what to add to the stack's environment.
        while_running: as in `submit`.

    Raises:
        RuntimeError: the attempt failed.
    """
    command = [sys.executable, "-m", "support.attempt_on_server", *arguments]
    added = {ON_SERVER: stack.spark_connect.airflow_connection, **(variables or {})}
    return _run(stack, "attempt_on_server", command, added, while_running)


def _run(
    stack: LocalStack,
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    while_running: Callable[[psutil.Process], None],
) -> float:
    environment = {**stack.environment(), **variables}
    output = stack.logs / f"{name}.log"
    begun = time.monotonic()
    with output.open("wb") as log, ThreadPoolExecutor(1) as pool:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        watching = pool.submit(while_running, psutil.Process(process.pid))
        try:
            code = process.wait(_TIMEOUT_SECONDS)
        finally:
            process.kill()
        seconds = time.monotonic() - begun
        watching.result()
    if code != 0:
        last = "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{name} ended with exit code {code}:\n{last}")
    return seconds


def _python_path() -> str:
    return os.pathsep.join([str(CHECKOUT / "provider"), os.environ.get("PYTHONPATH", "")])
