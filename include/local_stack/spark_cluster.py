"""A standalone Spark cluster of a stack: a master and two workers, whose Python has no work orders."""

import json
import secrets
import sys
import sysconfig
import venv
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from local_stack.errors import StackError
from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes
from workorders.kafka.spark.network import CIPHER, network_cipher

# Two names of this machine: Spark runs the copy of a slow task on another host only.
_WORKERS_HOSTS = (LOOPBACK, "localhost")
_SERVERS, _SUBMITTER, _PYTHON, _WORK = "servers", "submitter", "python", "work"
_START_SECONDS = 300.0
_REGISTERED = "Successfully registered with master"
_DEPLOY = "org.apache.spark.deploy"
# The daemons are small and live long; two cores compile nothing well for six JVMs at once.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_INHERITED = ("PATH", "JAVA_HOME", "TMPDIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_DIRS")
"""All that the cluster's machines get of the stack's environment: no module path, and no password."""


class SparkCluster:
    """A cluster that takes authenticated and encrypted connections alone; described with the stack, started on demand.

    Its executors run their own Python, which has the libraries of the package and not the package.
    """

    def __init__(self) -> None:
        self._port = free_port()
        self._processes: dict[str, ManagedProcess] = {}
        self._folder: Path | None = None

    @property
    def master(self) -> str:
        """The master's address."""
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def is_started(self) -> bool:
        """Whether it was started."""
        return bool(self._processes)

    @property
    def variables(self) -> dict[str, str]:
        """What a program needs that submits to the cluster.

        They hold no password: the shared secret is in a file.
        """
        connection = {"conn_type": "spark", "host": self.master, "extra": {"spark-binary": "spark-submit"}}
        return {"SPARK_CONF_DIR": str(self.folder / _SUBMITTER), "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}

    @property
    def folder(self) -> Path:
        """Where it keeps its state.

        Raises:
            AssertionError: The cluster was not started.
        """
        if self._folder is None:
            raise AssertionError("The Spark cluster was not started; call start.")
        return self._folder

    @property
    def python(self) -> Path:
        """The program that runs the executors' Python."""
        return self.folder / _PYTHON / "bin" / "python"

    def applications(self) -> set[str]:
        """Return the ids of the applications that the workers have started executors for."""
        return {path.name for path in self.folder.glob(f"{_WORK}/*/app-*")}

    @property
    def master_process(self) -> ManagedProcess:
        """The master's process."""
        return self._processes["spark-master"]

    @property
    def workers(self) -> tuple[ManagedProcess, ...]:
        """The workers' processes, parents of the executors."""
        return tuple(process for name, process in self._processes.items() if name != self.master_process.name)

    def create(self, processes: Processes, home: Path, environment: Mapping[str, str]) -> None:
        """Write the settings of the cluster and of those who submit, and describe the processes.

        Args:
            processes: The supervisor that will own them.
            home: Folder of the stack.
            environment: The stack's whole environment.
        """
        self._folder = folder = home / "spark"
        _make_python_without_package(folder / _PYTHON)
        shared = {"spark.authenticate.secret": secrets.token_urlsafe(32)}
        required = {
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            CIPHER: network_cipher(),
            "spark.network.crypto.saslFallback": "false",
            "spark.master.rest.enabled": "false",
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(folder / "recovery"),
        }
        submitted = {
            "spark.cores.max": str(len(_WORKERS_HOSTS)),
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
            "spark.pyspark.python": str(self.python),
            "spark.pyspark.driver.python": sys.executable,
        }
        _write_settings(folder / _SERVERS, shared | required)
        _write_settings(folder / _SUBMITTER, shared | submitted)
        variables = {
            **{name: environment[name] for name in _INHERITED},
            "SPARK_HOME": str(_spark_home()),
            "SPARK_CONF_DIR": str(folder / _SERVERS),
            "SPARK_DAEMON_JAVA_OPTS": f"{_JAVA_OPTIONS} -Djava.io.tmpdir={environment['TMPDIR']}",
        }
        self._describe(processes, folder / _WORK, variables)

    def _describe(self, processes: Processes, work: Path, variables: Mapping[str, str]) -> None:
        program, pages = str(_spark_home() / "bin" / "spark-class"), ["--webui-port", "0"]
        master = [program, f"{_DEPLOY}.master.Master", "--host", LOOPBACK, "--port", str(self._port), *pages]
        self._processes = {"spark-master": ManagedProcess(processes, "spark-master", master, variables)}
        for number, host in enumerate(_WORKERS_HOSTS, start=1):
            name = f"spark-worker-{number}"
            own = ["--host", host, *pages, "--cores", "1", "--memory", "600m", "--work-dir", str(work / str(number))]
            worker = [program, f"{_DEPLOY}.worker.Worker", *own, self.master]
            self._processes[name] = ManagedProcess(processes, name, worker, variables)

    def start(self) -> None:
        """Start the master and the workers, and wait until they know one another.

        Raises:
            StackError: One of them did not start.
        """
        self.start_master()
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            worker.wait_until(partial(_is_registered, worker.log), seconds=_START_SECONDS, what=worker.name)

    def start_master(self) -> None:
        """Start the master; the workers of one that was killed find it again."""
        self.master_process.start()
        self.master_process.wait_until(
            lambda: accepts_connections(self._port), seconds=_START_SECONDS, what="the Spark master"
        )


def _is_registered(log: Path) -> bool:
    return _REGISTERED in log.read_text(encoding="utf-8", errors="replace")


def _spark_home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise StackError("PySpark is not installed, so no Spark cluster was started; run make install.")
    return Path(found.origin).parent


def _make_python_without_package(folder: Path) -> None:
    """Make an environment with all that is installed here but this package.

    The package is installed by a file in this environment's folder of packages that names the checkout. Such a file
    counts in a folder of packages alone, and not in one that another such file names.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(packages, "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def _write_settings(folder: Path, settings: Mapping[str, str]) -> None:
    """Make a folder with a spark-defaults.conf that no other user can read."""
    folder.mkdir(parents=True)
    file = folder / "spark-defaults.conf"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
