"""The command line of `spark-submit` as the ingest Dag makes it, on some cores of this machine or on a cluster."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from workorders.kafka.definition.trigger import DEFAULT_CONF
from workorders.kafka.spark.class_archive import use_archive
from workorders.kafka.spark.installed_package import package_archive
from workorders.kafka.spark.kafka_source import split_jars

CORES = 2


def replace_spark_submit(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Put a program of the shell in the place of this environment's `spark-submit`."""
    program = folder / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def submit_command(
    jars: str,
    application: Path,
    arguments: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    *,
    master: str | None = None,
) -> list[str]:
    """Return program and arguments.

    Args:
        jars: separated by commas.
        application: the program.
        arguments: the program's own.
        conf: wins over the settings of the ingest DAG.
        master: a cluster, whose executors get the package; this machine if not given.
    """
    command = ["spark-submit", "--master", master or f"local[{CORES}]", "--jars", jars]
    if master is not None:
        command += ["--py-files", str(package_archive())]
    for name, value in use_archive({**DEFAULT_CONF, **(conf or {})}, split_jars(jars)).items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(application), *arguments]
