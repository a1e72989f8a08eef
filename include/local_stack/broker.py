"""A Kafka broker (KRaft: broker and controller in one process) on free ports of the loopback interface."""

import logging
import os
import secrets
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from local_stack.java import Java
from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes

# A silent logger: a broker that is still starting is expected.
_silent = logging.getLogger(f"{__name__}.probe")
_silent.disabled = True

_START_SECONDS = 240.0
_STOP_SECONDS = 60.0
_PROBE_SECONDS = 2.0

# The client compiler's code and the serial collector start fastest and are content with one core; the heap is enough
# for a few hundred partitions.
_JVM_OPTIONS = (
    "-Xms512m",
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
    # Rights are asked of the user who has none but those that are given: all others have every right.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:workorders",
    "auto.create.topics.enable": "false",
    # One broker: its internal topics cannot have three copies, and few partitions of them are made fastest.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    # A transaction that is too old is ended within a second, not within ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed may register again only when its last session has run out, 9 seconds by default; one that
    # stops for as long, on a busy machine, has no leaders any more.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
}

_WITH_SECOND = 2
_USER = "workorders"
_LIMITED_USER = "limited"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Kafka:
    """A single Kafka broker."""

    def __init__(
        self, processes: Processes, home: Path, *, java: Java, jars: Sequence[Path], name: str = "kafka"
    ) -> None:
        self._processes = processes
        self._name = name
        self._home = home / name
        self._java = java
        self._class_path = os.pathsep.join(map(str, jars))
        self._port = free_port()
        self._sasl_port = free_port()
        self._controller_port = free_port()
        self._password = secrets.token_urlsafe(24)
        self._cluster_id = cluster_id_of(uuid.uuid4())
        self._configuration = self._home / "server.properties"
        #: The broker's process.
        self.process = self._managed(name, "kafka.Kafka", str(self._configuration))

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address, which stays the same when it is stopped and started."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def limited_settings(self) -> dict[str, str | int | float | bool]:
        """What a client needs that has no rights but those that were given to `User:limited`. It holds a password."""
        return {**self.sasl_settings, "sasl.username": _LIMITED_USER}

    @property
    def sasl_settings(self) -> dict[str, str | int | float | bool]:
        """What a client needs at the listener that asks for a login. It holds a password."""
        return {
            "bootstrap.servers": self._sasl_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _USER,
            "sasl.password": self._password,
        }

    @property
    def _sasl_address(self) -> str:
        return f"{LOOPBACK}:{self._sasl_port}"

    def create(self) -> None:
        """Make the broker's storage and start it for the first time.

        Raises:
            StackError: It did not start.
        """
        self._home.mkdir(mode=0o700)
        (self._home / "tmp").mkdir()
        _write(self._configuration, self._settings())
        self._format(f"{self._name}-format", self._configuration)
        self.start()

    def add_broker(self) -> ManagedProcess:
        """Start a second broker of the cluster, which takes no part in the quorum, and return its process.

        Raises:
            StackError: It did not start.
        """
        home = self._home / "second"
        home.mkdir()
        address = f"PLAINTEXT://{LOOPBACK}:{free_port()}"
        configuration = home / "server.properties"
        settings = {
            **self._settings(),
            "process.roles": "broker",
            "node.id": "2",
            "listeners": address,
            "advertised.listeners": address,
            "log.dirs": str(home / "data"),
        }
        _write(configuration, settings)
        self._format(f"{self._name}-second-format", configuration)
        process = self._managed(f"{self._name}-second", "kafka.Kafka", str(configuration))
        process.start()
        process.wait_until(lambda: self._brokers() == _WITH_SECOND, seconds=_START_SECONDS, what="The second broker")
        return process

    def _format(self, name: str, configuration: Path) -> None:
        # In one word with its option: one id in 64 begins with a hyphen and would be taken for an option itself.
        arguments = ("format", f"--cluster-id={self._cluster_id}", "--config", str(configuration))
        self._managed(name, "kafka.tools.StorageTool", *arguments).finish(
            seconds=_START_SECONDS, what="Formatting the Kafka broker's storage"
        )

    def start(self) -> None:
        """Start the broker, on the same port and storage, and wait until it answers.

        Raises:
            StackError: It did not start.
        """
        self.process.start()
        self.process.wait_until(self._answers, seconds=_START_SECONDS, what="Kafka")

    def stop(self) -> None:
        """Stop the broker; what it acknowledged stays."""
        self.process.stop(seconds=_STOP_SECONDS)

    def kill(self) -> None:
        """Kill the broker by SIGKILL."""
        self.process.kill()

    def _managed(self, name: str, main_class: str, *arguments: str) -> ManagedProcess:
        temporary = f"-Djava.io.tmpdir={self._home / 'tmp'}"
        options = [*_JVM_OPTIONS, *self._java_options(), temporary]
        java: list[str | Path] = [self._java.program, *options, "-cp", self._class_path]
        command = [*java, main_class, *arguments]
        return ManagedProcess(self._processes, name, command, {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"})

    def _settings(self) -> dict[str, str]:
        controller = f"{LOOPBACK}:{self._controller_port}"
        return {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},SASL://{self._sasl_address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers},SASL://{self._sasl_address}",
            "listener.name.sasl.plain.sasl.jaas.config": self._logins(),
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._home / "data"),
        }

    def _java_options(self) -> Sequence[str]:
        """Return further options for the JVM."""
        return ()

    def _logins(self) -> str:
        users = " ".join(f'user_{user}="{self._password}"' for user in (_USER, _LIMITED_USER))
        return f"{_LOGIN} required {users};"

    def _answers(self) -> bool:
        return accepts_connections(self._port) and self._brokers() > 0

    def _brokers(self, login: Mapping[str, str] | None = None) -> int:
        """Return how many brokers a client sees, with a login if one is given; 0 for one that gets no answer."""
        client = AdminClient({**(login or {"bootstrap.servers": self.bootstrap_servers})}, logger=_silent)
        try:
            return len(client.list_topics(timeout=_PROBE_SECONDS).brokers)
        except KafkaException:
            return 0


def cluster_id_of(number: uuid.UUID) -> str:
    """Return a cluster id in the form that Kafka gives them: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(number.bytes).decode().rstrip("=")


def _write(file: Path, settings: Mapping[str, str]) -> None:
    # They hold passwords, and every user of the machine may enter the stack's folder.
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
