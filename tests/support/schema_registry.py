"""A real schema registry (Apicurio) that serves Confluent's API, as a process of a test's stack."""

import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError

import fastavro
import orjson
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from jgo.maven import MavenContext

from local_stack.jars import sha256_of
from local_stack.java import find_java
from local_stack.ports import LOOPBACK, free_port
from local_stack.stack import LocalStack
from workorders.kafka.spark.class_archive import cache_folder

_ARTIFACT, _VERSION = "apicurio-registry-app", "3.0.9"
_SHA256: Final = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_START_SECONDS: Final = 120.0


class RegistryServer:
    """A registry that keeps its schemas in memory."""

    def __init__(self, stack: LocalStack) -> None:
        self._port = free_port()
        self.process = stack.process(
            f"registry-{self._port}",
            [
                *(find_java().program, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                f"-Dquarkus.http.port={self._port}",
                f"-Dquarkus.http.host={LOOPBACK}",
                "-Dquarkus.http.access-log.enabled=false",
                *("-jar", _unpacked() / f"{_ARTIFACT}-{_VERSION}-runner.jar"),
            ],
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What a client needs; one that waits as little as a test may."""
        return {"url": f"http://{LOOPBACK}:{self._port}/apis/ccompat/v7", "max.retries": 0}

    def start(self) -> None:
        """Start the registry and wait until it answers."""
        self.process.start()
        self.process.wait_until(self._answers, seconds=_START_SECONDS, what="The schema registry")

    def register(self, subject: str, schema: Any, type_: str = "AVRO") -> int:
        """Register a schema and return its id."""
        text = schema if isinstance(schema, str) else orjson.dumps(schema).decode()
        return int(SchemaRegistryClient(self.settings).register_schema(subject, Schema(text, type_)))

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.settings['url']}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return a payload with the id of its schema."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema_id: int, schema: Mapping[str, Any], value: Any) -> bytes:
    """Return a value in Avro with the id of its schema."""
    with tempfile.SpooledTemporaryFile() as file:
        fastavro.schemaless_writer(file, dict(schema), value)
        file.seek(0)
        return framed(schema_id, file.read())


def _unpacked() -> Path:
    """Return the folder of the registry's program; download it once, and compare it with its checksum."""
    folder = cache_folder() / "registry" / _SHA256[:16]
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        maven = MavenContext(repo_cache=Path(scratch, "maven"), timeout=60)
        component = maven.project("io.apicurio", _ARTIFACT).at_version(_VERSION)
        downloaded = Path(component.artifact("all", "tar.gz").resolve())
        assert sha256_of(downloaded) == _SHA256, "Maven Central has another file than the one that the tests know"
        with tarfile.open(downloaded) as archive:
            archive.extractall(Path(scratch, "program"), filter="data")
        try:
            Path(scratch, "program").rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(Path(scratch, "program"))
    return folder
