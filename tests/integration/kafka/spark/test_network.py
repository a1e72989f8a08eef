"""What a real `spark-submit` listens on, what it loads, and what it refuses to send anywhere."""

import subprocess
import time
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from local_stack.ports import LOOPBACK, free_port
from local_stack.stack import LocalStack
from support.batch_submission import APPLICATION
from support.in_process_trigger import TEN, InProcessTrigger, kept
from support.topics import Topics
from workorders.core.postgres.connection import Connection
from workorders.kafka.spark.class_archive import use_archive

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SECONDS = 800.0
CLASSES = (
    "org.apache.spark.deploy.SparkSubmit",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
)


class Application:
    """A submitted application, and what was seen of it while it ran."""

    def __init__(self, stack: LocalStack, master: str, log: Path, environment: Mapping[str, str]) -> None:
        self._stack = stack
        self._command = ["spark-submit", "--master", master, "--jars", ",".join(map(str, stack.spark_jars))]
        self._log = log
        self._environment = environment
        self.listened_at: set[tuple[int, str]] = set()
        """Port and address of every socket that its processes listened on."""

    def ingest(self, batch_id: int, *conf: str) -> int:
        """Run to the end, looking at the sockets all the time; returns the exit code."""
        options = [word for setting in conf for word in ("--conf", setting)]
        command = [*self._command, *options, str(APPLICATION), "--batch", str(batch_id)]
        with (
            self._log.open("wb") as log,
            subprocess.Popen(command, env=self._environment, stdout=log, stderr=log) as submitted,
        ):
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                self._look(submitted.pid)
                try:
                    return submitted.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
            submitted.kill()
        raise TimeoutError(self.log)

    @property
    def log(self) -> str:
        """What it printed."""
        return self._log.read_text(encoding="utf-8")

    def _look(self, pid: int) -> None:
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
            for one in family:
                for socket in one.net_connections("inet"):
                    if socket.status == psutil.CONN_LISTEN:
                        self.listened_at.add((socket.laddr.port, socket.laddr.ip))
        except psutil.NoSuchProcess:
            return  # it has just ended


@pytest.fixture
def batch_id(stack: LocalStack, topics: Topics, name: str) -> int:
    """The number of a planned batch of ten messages."""
    topics.create(name)
    topics.produce(name, TEN)
    return InProcessTrigger(stack, name).batch()


def is_loopback(address: str) -> bool:
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def test_a_local_application_listens_on_loopback_alone_and_loads_its_classes_from_the_archive(
    stack: LocalStack, connection: Connection, batch_id: int, *, name: str, tmp_path: Path
) -> None:
    environment = {key: value for key, value in stack.environment().items() if not key.startswith("SPARK_LOCAL")}
    loaded = tmp_path / "loaded"
    environment["SPARK_SUBMIT_OPTS"] += f" -Xlog:class+load:file={loaded}"
    application = Application(stack, "local[*]", tmp_path / "log", environment)
    archived = [f"{setting}={value}" for setting, value in use_archive({}, stack.spark_jars).items()]
    assert application.ingest(batch_id, *archived) == 0, application.log
    assert [len(found) for found in kept(connection, name).values()] == [10]
    # PySpark's own port, the driver's and the block manager's.
    assert len(application.listened_at) >= 3
    assert [place for place in application.listened_at if not is_loopback(place[1])] == []
    lines = loaded.read_text().splitlines()
    for class_ in CLASSES:
        found = [line for line in lines if f" {class_} source" in line]
        assert [line.endswith("source: shared objects file (top)") for line in found] == [True], found


def test_a_cluster_without_a_shared_secret_is_refused_before_anything_is_sent_to_it(
    stack: LocalStack, connection: Connection, batch_id: int, *, name: str, tmp_path: Path
) -> None:
    application = Application(stack, f"spark://{LOOPBACK}:{free_port()}", tmp_path / "log", stack.environment())
    assert application.ingest(batch_id) == 1
    assert "needs a shared secret" in application.log
    assert kept(connection, name) == {}
