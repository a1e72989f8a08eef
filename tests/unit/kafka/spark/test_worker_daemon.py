"""The daemon of the Python workers: what it has loaded when it forks."""

import subprocess
import sys

from workorders.kafka.spark.session import OWN_DAEMON

LOADED = f"""
import os, sys
import {OWN_DAEMON}
print(len(os.listdir("/proc/self/task")))
before = set(sys.modules)
import workorders.kafka.spark.partition_ingest
print(*(name for name in sys.modules.keys() - before if name.split(".")[0] in {{"workorders", "numpy", "pydantic"}}))
"""


def test_one_thread_forks_workers_that_load_pyarrow_and_its_user_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    threads, loaded = done.stdout.splitlines()
    assert threads == "1"
    assert loaded.split() == ["workorders.kafka.spark.partition_ingest"]
