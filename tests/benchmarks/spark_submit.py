"""`spark-submit` as the ingest DAG calls it, on a given number of cores of this machine."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from local_stack.stack import CHECKOUT, LocalStack
from support.spark_submit import submit_command

APPLICATION = CHECKOUT / "spark_apps" / "create_work_orders.py"
_TIMEOUT_SECONDS = 900.0


def submit(
    stack: LocalStack,
    application: Path,
    arguments: Sequence[str] = (),
    *,
    conf: Mapping[str, str] | None = None,
    while_running: Callable[[psutil.Process], None] | None = None,
) -> float:
    """Submit an application and wait for its end; return the seconds from its start to its end.

    Args:
        stack: where it works; the application gets the stack's environment.
        application: the Python file.
        arguments: what the application is told.
        conf: Spark settings that win over those of the ingest DAG.
        while_running: called once, in another thread, with the process as soon as it runs.

    Raises:
        RuntimeError: the application failed.
    """
    command = submit_command(",".join(map(str, stack.spark_jars)), application, arguments, conf)
    environment = {**stack.environment(), "PYTHONPATH": _python_path()}
    output = stack.logs / "spark-submit.log"
    begun = time.monotonic()
    with output.open("wb") as log, ThreadPoolExecutor(1) as pool:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        watching = pool.submit(while_running, psutil.Process(process.pid)) if while_running else None
        try:
            code = process.wait(_TIMEOUT_SECONDS)
        finally:
            process.kill()
        seconds = time.monotonic() - begun
        if watching is not None:
            watching.result()
    if code != 0:
        last = "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{application.name} ended with exit code {code}:\n{last}")
    return seconds


def _python_path() -> str:
    return os.pathsep.join([str(CHECKOUT / "provider"), os.environ.get("PYTHONPATH", "")])
