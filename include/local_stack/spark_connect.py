"""The Spark Connect server of a stack: `workorders spark serve`."""

import json
import secrets
import sys
from pathlib import Path

from local_stack.ports import LOOPBACK, free_port
from local_stack.processes import ManagedProcess, Processes

_START_SECONDS = 300.0
_READY = "The Spark Connect server is ready on port"


class SparkConnect:
    """A running Spark for the batches; described with the stack, and started when someone needs it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.token = secrets.token_urlsafe(32)
        self._process: ManagedProcess | None = None
        self._times_started = 0

    @property
    def airflow_connection(self) -> str:
        """The Airflow connection to the server, as JSON. It holds the token."""
        return json.dumps(
            {"conn_type": "spark_connect", "host": "localhost", "port": self.port, "password": self.token}
        )

    @property
    def process(self) -> ManagedProcess:
        """The server's process.

        Raises:
            AssertionError: It was not started.
        """
        if self._process is None:
            raise AssertionError("The Spark Connect server was not started; call start.")
        return self._process

    @property
    def is_started(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.running

    def create(self, processes: Processes, environment: dict[str, str]) -> None:
        """Describe the process."""
        program = Path(sys.executable).with_name("workorders")
        # Alone on the class path: the archive of classes fits an application that is submitted.
        command: list[str | Path] = [program, "spark", "serve", "--host", LOOPBACK, "--port", str(self.port)]
        variables = {**environment, "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token}
        self._process = ManagedProcess(processes, "spark-connect", command, variables)

    def start(self) -> None:
        """Start the server, and wait until it has run a first query.

        Raises:
            StackError: It did not start.
        """
        self.process.start()
        self._times_started += 1
        self.process.wait_until(self._is_ready, seconds=_START_SECONDS, what="the Spark Connect server")

    def _is_ready(self) -> bool:
        return self.process.log.read_text(errors="replace").count(_READY) == self._times_started
