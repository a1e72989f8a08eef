"""Spark Structured Streaming with `foreachBatch`: an upsert, or a transaction with the batch ID."""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from compare.case import Case
from compare.peer import HERE, Command, Peer, distributions, environment, locked
from local_stack.java import find_java
from local_stack.ports import LOOPBACK

_LOCK: Final = HERE / "spark.lock"
_installing: Final = Lock()
_FOREACH: Final = (
    "https://spark.apache.org/docs/latest/api/python/reference/pyspark.ss/api/"
    "pyspark.sql.streaming.DataStreamWriter.foreachBatch.html"
)
_LOST: Final = "Some data may have been lost"
_ANOTHER_TOPIC: Final = "offset was changed from"
_MASTER: Final = "https://spark.apache.org/docs/latest/submitting-applications.html#master-urls"
_KAFKA: Final = "https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html"


class Streaming(Peer):
    """Structured Streaming."""

    without_group = "the positions are in the query's checkpoint, and no consumer group is used"
    in_java = True
    patience = 60.0

    def __init__(self, way: str, name: str, settings: str) -> None:
        self.slug = f"streaming-{way}"
        self.name = name
        self.settings = (
            f"{settings}, [`kafka.isolation.level=read_committed`]({_KAFKA}), and [`local[2, 4]`]({_MASTER}), which "
            "repeats tasks as a cluster does"
        )
        self._way = way

    def version(self) -> str:
        return f"Spark {locked(_LOCK, 'pyspark')}"

    def parts(self) -> int:
        return distributions(_python())

    def prepare(self, case: Case) -> None:
        if self._way == "upsert":
            case.site.admin(f'ALTER TABLE {case.table} ADD UNIQUE (topic, partition, "offset")')
        else:
            key = "query text, batch_id bigint, PRIMARY KEY (query, batch_id)"
            case.site.admin(f"CREATE TABLE {case.table}_batches ({key})")
            case.site.admin(f"ALTER TABLE {case.table}_batches OWNER TO workorders")

    def command(self, case: Case, number: int) -> Command:
        jars = ",".join(map(str, case.site.stack.spark_jars))
        given = [case.servers, case.topic, case.table, self._way, str(case.site.stack.home), jars]
        variables = {
            "EFFECTS_URL": case.url(),
            # More than one batch, of whatever size.
            "MAX_OFFSETS": str(case.messages * 9 // 10),
            "PYTHONPATH": str(HERE.parent),
            **_spark_of(_python()),
        }
        if case.is_brief:
            options = case.site.stack.variables()["SPARK_SUBMIT_OPTS"]
            variables["SPARK_SUBMIT_OPTS"] = f"{options} -XX:SharedArchiveFile={_classes()}"
        return Command([_python(), HERE / "streaming_app.py", *given], variables)

    def remedy(self, case: Case) -> str:
        log = case.logs[0].read_text(encoding="utf-8", errors="replace")
        # Of a topic that is another one, its messages would be skipped.
        if not case.halted or case.variables or _LOST not in log or _ANOTHER_TOPIC in log:
            return ""
        case.variables["FAIL_ON_DATA_LOSS"] = "false"
        case.forget()
        case.start()
        return "a restart with `failOnDataLoss=false`"

    def replay(self, case: Case, offsets: Mapping[int, int]) -> str:
        starts = {case.topic: {str(partition): offset for partition, offset in offsets.items()}}
        case.variables = {"STARTING_OFFSETS": json.dumps(starts), "QUERY": "again"}
        case.forget()
        case.start()
        return "a new query with `startingOffsets`"

    def kept(self, case: Case) -> int:
        return int(case.site.admin(f"SELECT count(*) FROM {case.table} WHERE raw IS NOT NULL")[0][0])


def _python() -> Path:
    with _installing:
        return _installed()


@cache
def _installed() -> Path:
    return environment("spark", _LOCK, build=_builders())


def _classes() -> Path:
    """Return an archive of the classes that Spark loads: with it, a JVM starts with two thirds of the CPU."""
    python = _python()
    archive = python.parents[1] / "classes.jsa"
    with _installing:
        if not archive.exists():
            made = archive.with_suffix(".part")  # one that was cut off is not used
            variables = {
                **os.environ,
                **_spark_of(python),
                "JAVA_HOME": str(find_java().home),
                "SPARK_LOCAL_IP": LOOPBACK,
                "SPARK_SUBMIT_OPTS": f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={made}",
            }
            command = [python.with_name("spark-submit"), HERE / "spark_classes.py"]
            subprocess.run(command, env=variables, check=True, capture_output=True)
            made.replace(archive)
    return archive


def _spark_of(python: Path) -> dict[str, str]:
    home = next(python.parents[1].glob("lib/python*/site-packages/pyspark"))
    return {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python)}


def _builders() -> list[str]:
    """Return what builds pyspark, which is published as source alone."""
    return [f"setuptools=={locked(HERE.parents[1] / 'requirements.lock', 'setuptools')}"]


STREAMING_UPSERT: Final = Streaming(
    "upsert",
    "Structured Streaming, upsert",
    f"[`foreachBatch`]({_FOREACH}) with `INSERT ... ON CONFLICT DO UPDATE` on topic, partition, and offset",
)
STREAMING_ONCE: Final = Streaming(
    "once",
    "Structured Streaming, batch ID",
    f"[`foreachBatch`]({_FOREACH}) with the batch ID in the transaction of the rows",
)
