"""Airflow's components as separate processes, so that a test can stop, kill and start each of them."""

import json
import secrets
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx

from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes

_MIGRATE_SECONDS = 300.0
_START_SECONDS = 300.0
_STOP_SECONDS = 30.0
_PROBE_SECONDS = 5.0
_MAX_RESTARTS = 5

_NEEDED_SETTINGS = {
    "AIRFLOW__API__HOST": LOOPBACK,
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
}
"""What differs from Airflow's defaults in every stack, in addition to its folders, ports and secrets."""
_QUICK_SETTINGS = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__API__WORKERS": "1",
    # A Dag file that is new or has changed shows within a second or two, and a trigger's or workflow's file when the
    # Dag files are read again. More often than this, reading them takes a third of a core.
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
    # A component that was killed is noticed, and its tasks are adopted, soon. Not sooner, though: a scheduler that is
    # busy for so long considers itself dead, and restarts all its tasks again and again.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "5",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    # The api-server's first answer to a task has taken 15 seconds on a busy machine; a task gives up after 5.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    # A program that outlives its killed task keeps the task's socket open, and Airflow waits a minute for its end.
    "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "5",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
"""What shows a change, and the end of a component, within seconds, on a machine of two cores and without a login."""
_QUICK_BUNDLE = {"refresh_interval": 1}
_CELERY_SETTINGS = {
    # The LocalExecutor is for the tasks that name it.
    "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor,LocalExecutor",
    # On a busy machine, Redis has not answered within a second.
    "AIRFLOW__CELERY__OPERATION_TIMEOUT": "10",
    # A task that a killed worker had fetched and not started is queued again.
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "120",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
}
WORKER_SLOTS = 4
"""Tasks that one Celery worker runs at a time."""


class Airflow:
    """The api-server, scheduler, dag-processor and triggerer of one Airflow, with the LocalExecutor.

    With the CeleryExecutor there are two schedulers, two triggerers, and two workers.
    """

    def __init__(
        self,
        home: Path,
        logs: Path,
        *,
        metadata_url: str,
        database_url: str,
        kafka_settings: Mapping[str, str | int | float | bool],
        dags_folder: Path,
        program: Path,
        stock: bool = False,
        broker_url: str | None = None,
    ) -> None:
        self._program = program
        self._with_celery = broker_url is not None
        self._port = free_port()
        self.home = home / "airflow"
        #: Where Airflow keeps the passwords that it makes, if it asks for any.
        self.passwords_file = self.home / "simple_auth_manager_passwords.json.generated"
        #: The address of the pages and of the API.
        self.url = f"http://{LOOPBACK}:{self._port}"
        #: What every Airflow process needs in its environment. It holds passwords.
        self.settings = {
            **_NEEDED_SETTINGS,
            **({} if stock else _QUICK_SETTINGS),
            **({} if broker_url is None else {**_CELERY_SETTINGS, "AIRFLOW__CELERY__BROKER_URL": broker_url}),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(logs / "airflow-tasks"),
            "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(logs / "airflow-dag-files"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata_url,
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "AIRFLOW__CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": _bundles(dags_folder, **({} if stock else _QUICK_BUNDLE)),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": dict(kafka_settings)}),
            "AIRFLOW_CONN_WORKORDERS_DB": database_url,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
                {"conn_type": "spark", "host": "local[*]", "extra": {"spark-binary": "spark-submit"}}
            ),
        }
        self._components: dict[str, AirflowComponent] = {}

    @property
    def components(self) -> tuple["AirflowComponent", ...]:
        """All components, in the order in which they are started."""
        return tuple(self._components.values())

    @property
    def api_server(self) -> "AirflowComponent":
        """What serves the pages, the API and what tasks ask for."""
        return self._components["api-server"]

    @property
    def scheduler(self) -> "AirflowComponent":
        """The scheduler, parent of the LocalExecutor's workers and of their tasks."""
        return self._components["scheduler"]

    @property
    def dag_processor(self) -> "AirflowComponent":
        """What reads the Dag files."""
        return self._components["dag-processor"]

    @property
    def triggerer(self) -> "AirflowComponent":
        """What runs the triggers of deferred tasks."""
        return self._components["triggerer"]

    def create(self, processes: Processes, environment: Mapping[str, str]) -> None:
        """Make the metadata database's tables.

        Raises:
            StackError: They could not be made.
        """
        self.home.mkdir(mode=0o700)
        ManagedProcess(processes, "airflow-db-migrate", [self._program, "db", "migrate"], environment).finish(
            seconds=_MIGRATE_SECONDS, what="Making the tables of Airflow's metadata database"
        )
        # Without --skip-serve-logs these two open a port on every interface.
        commands = {
            "api-server": ["api-server", "--host", LOOPBACK, "--port", str(self._port)],
            "scheduler": ["scheduler", "--skip-serve-logs"],
            "dag-processor": ["dag-processor"],
            "triggerer": ["triggerer", "--skip-serve-logs"],
        }
        for name, command in commands.items():
            process = ManagedProcess(processes, f"airflow-{name}", [self._program, *command], environment)
            self._components[name] = AirflowComponent(self, name, process)
        if self._with_celery:
            for name in ("scheduler", "triggerer"):
                self._add(processes, environment, f"{name}-2", commands[name], ready=f"Starting the {name}")
            for number in (1, 2):
                self.add_worker(processes, environment, f"worker-{number}", queues="default,spark")

    def add_worker(
        self, processes: Processes, environment: Mapping[str, str], name: str, *, queues: str
    ) -> "AirflowComponent":
        """Describe a Celery worker, and return it.

        Args:
            processes: The supervisor that will own it.
            environment: The stack's whole environment.
            name: A name that no other component has.
            queues: Names of the queues that it takes tasks from, separated by commas.
        """
        command = ["celery", "worker", "--queues", queues, "--concurrency", str(WORKER_SLOTS)]
        command += ["--celery-hostname", f"{name}@%h", "--pid", str(self.home / f"{name}.pid")]
        command += ["--skip-serve-logs", "--without-mingle", "--without-gossip"]
        return self._add(processes, environment, name, command, ready=" ready.")

    def _add(
        self, processes: Processes, environment: Mapping[str, str], name: str, command: list[str], *, ready: str
    ) -> "AirflowComponent":
        process = ManagedProcess(processes, f"airflow-{name}", [self._program, *command], environment)
        self._components[name] = AirflowComponent(self, name, process, ready=ready)
        return self._components[name]

    def start(self) -> None:
        """Start all components and wait until each of them reports that it is healthy.

        Raises:
            StackError: One of them did not start.
        """
        # The schedulers come last: a task that they start while the api-server is still starting fails.
        schedulers = [component for component in self.components if component.name.startswith("scheduler")]
        for component in self.components:
            if component not in schedulers:
                component.process.start()
        self.api_server.wait()
        for component in schedulers:
            component.process.start()
        for component in self.components:
            component.wait()

    def stop(self) -> None:
        """Stop all components."""
        for component in reversed(self.components):
            component.stop()

    def health(self) -> dict[str, dict[str, str | None]]:
        """Return the health of the components as Airflow's API reports it, empty if the API does not answer."""
        if not accepts_connections(self._port):
            return {}
        try:
            answer = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=_PROBE_SECONDS, trust_env=False)
        except httpx.TransportError:
            return {}
        return dict(answer.json()) if answer.is_success else {}


class AirflowComponent:
    """One component of Airflow."""

    def __init__(self, airflow: Airflow, name: str, process: ManagedProcess, *, ready: str | None = None) -> None:
        """Describe the component.

        Args:
            airflow: Whose component it is.
            name: Its name.
            process: Its process.
            ready: What its log contains once it is well, if Airflow's API reports nothing of it.
        """
        self.name = name
        #: The component's process.
        self.process = process
        self._airflow = airflow
        self._ready = ready
        self._started_at = datetime.min.replace(tzinfo=UTC)

    def start(self) -> None:
        """Start the component and wait until it is well.

        Raises:
            StackError: It did not start.
        """
        self._started_at = datetime.now(UTC)
        self.process.start()
        self.wait()

    def wait(self) -> None:
        """Wait until the component, just started, is well.

        Raises:
            StackError: It ended, or was not well in time.
        """
        self.process.wait_until(self._is_well, seconds=_START_SECONDS, what=f"Airflow's {self.name}")

    def stop(self) -> None:
        """Stop the component; what it still does after half a minute is killed with it."""
        self.process.stop(seconds=_STOP_SECONDS)

    def kill(self, *, descendants: bool = True) -> None:
        """Kill the component by SIGKILL: with its workers, their tasks and those tasks' programs, or alone."""
        self.process.kill(descendants=descendants)

    def _is_well(self) -> bool:
        if self._ready is not None:
            return self._ready in self.process.log.read_text(encoding="utf-8", errors="replace")
        name = _HEALTH_NAMES[self.name]
        health = self._airflow.health().get(name)
        if health is None or health["status"] != "healthy":
            return False
        # A component that was killed counts as healthy until its last heartbeat is too old.
        heartbeat = health.get(f"latest_{name}_heartbeat")
        return self.name == "api-server" or bool(heartbeat and datetime.fromisoformat(heartbeat) > self._started_at)


def restart_ended(components: Iterable[AirflowComponent], restarts: Counter[str]) -> Iterator[str]:
    """Start components again that ended by themselves, and yield a line about each.

    Args:
        components: Of one Airflow.
        restarts: How often each was started again; counted on. After five times a component stays ended.
    """
    for component in components:
        number = restarts[component.name]
        if number > _MAX_RESTARTS or component.process.running:
            continue
        restarts[component.name] += 1
        ended = f"Airflow's {component.name} ended with exit code {component.process.exit_code}"
        if number == _MAX_RESTARTS:
            yield f"{ended} and stays ended, after {number} restarts; its log is {component.process.log}"
            continue
        component.process.start()
        yield f"{ended} and was started again ({number + 1} of at most {_MAX_RESTARTS} times)"


_HEALTH_NAMES = {
    "api-server": "metadatabase",
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}


def _bundles(dags_folder: Path, **arguments: int) -> str:
    """Return the value of ``[dag_processor] dag_bundle_config_list`` for one folder."""
    return json.dumps(
        [
            {
                "name": "dags",
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(dags_folder), **arguments},
            }
        ]
    )
