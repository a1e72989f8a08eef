"""The schema registry of a stack: Apicurio, which serves Confluent's API, with its schemas in memory."""

import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import requests
from jgo.maven import MavenContext

from local_stack.errors import StackError
from local_stack.jars import sha256_of
from local_stack.java import find_java
from local_stack.ports import LOOPBACK, free_port
from local_stack.processes import ManagedProcess
from workorders.kafka.spark.cache import make_cache_folder

_ARTIFACT, _VERSION = "apicurio-registry-app", "3.0.9"
_SHA256: Final = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_START_SECONDS: Final = 300.0
_DOWNLOAD_SECONDS: Final = 60
_PROBE_SECONDS: Final = 5.0


class SchemaRegistryServer:
    """A registry on a free port."""

    def __init__(self, describe: Callable[[str, Sequence[str | Path]], ManagedProcess]) -> None:
        """Download the program if it is not in the cache, and describe its process.

        Args:
            describe: Describes a process of the stack, by its name and its command.

        Raises:
            StackError: The program could not be downloaded, or is another one than expected.
        """
        port = free_port()
        #: The address of the API.
        self.url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        #: The registry's process.
        self.process = describe(
            f"registry-{port}",
            [
                *(find_java().program, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                f"-Dquarkus.http.port={port}",
                f"-Dquarkus.http.host={LOOPBACK}",
                "-Dquarkus.http.access-log.enabled=false",
                *("-jar", _program() / f"{_ARTIFACT}-{_VERSION}-runner.jar"),
            ],
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What a client needs; one that does not try again, because nothing is between it and the registry."""
        return {"url": self.url, "max.retries": 0}

    @property
    def airflow_connection(self) -> str:
        """The Airflow connection to the registry, as JSON."""
        return json.dumps({"conn_type": "http", "extra": self.settings})

    def start(self) -> None:
        """Start the registry and wait until it answers.

        Raises:
            StackError: It did not start.
        """
        self.process.start()
        self.process.wait_until(self._answers, seconds=_START_SECONDS, what="The schema registry")

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/subjects", timeout=_PROBE_SECONDS).is_success
        except httpx.TransportError:
            return False


def _program() -> Path:
    """Return the folder of the registry's program; download it once, and compare it with its checksum."""
    folder = make_cache_folder("registry") / _SHA256[:16]
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        downloaded = _download(Path(scratch, "maven"))
        with tarfile.open(downloaded) as archive:
            archive.extractall(Path(scratch, "program"), filter="data")
        try:
            Path(scratch, "program").rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(Path(scratch, "program"))
    return folder


def _download(folder: Path) -> Path:
    component = MavenContext(repo_cache=folder, timeout=_DOWNLOAD_SECONDS).project("io.apicurio", _ARTIFACT)
    try:
        downloaded = Path(component.at_version(_VERSION).artifact("all", "tar.gz").resolve())
    except (requests.RequestException, RuntimeError) as error:
        raise StackError(
            f"The schema registry {_ARTIFACT} {_VERSION} could not be downloaded from Maven Central ({error}); it was "
            "not started; check the network and try again."
        ) from error
    if (found := sha256_of(downloaded)) != _SHA256:
        raise StackError(
            f"The downloaded {downloaded.name} has the checksum {found} where {_SHA256} is expected; it was not put "
            "into the cache; try again, and if it stays so, do not use what the repository sends."
        )
    return downloaded
