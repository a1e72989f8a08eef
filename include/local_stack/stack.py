"""The whole local stack as a context manager."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from local_stack import jars
from local_stack.airflow import Airflow, AirflowComponent
from local_stack.broker import Kafka
from local_stack.errors import StackError
from local_stack.java import Java, find_java
from local_stack.login_kafka import LoginKafka
from local_stack.pgbouncer import LIMITS, PgBouncer, Pooling
from local_stack.postgres import Postgres
from local_stack.processes import ManagedProcess, Processes
from local_stack.redis import Redis
from local_stack.schema_registry import SchemaRegistryServer
from local_stack.spark_cluster import SparkCluster
from local_stack.spark_connect import SparkConnect
from workorders.core import schema
from workorders.kafka.spark.class_archive import create_archive, find_archive

CHECKOUT = Path(__file__).resolve().parents[2]
DATABASE = "workorders"
AIRFLOW_DATABASE = "airflow"
_UNNAMED = count(1)
"""Numbers of the stacks of this process without a name: one that stops removes its own logs and no others."""
# A scheduler that is killed during a transaction leaves its idle workers behind, and they hold its connection. Without
# a limit on idle transactions, the next scheduler skips all the Dag runs whose rows are locked there.
_AIRFLOW_SESSIONS = {"idle_in_transaction_session_timeout": "30s"}


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(f"{line}\n", end="", flush=True)  # in one piece: parts start at the same time


class LocalStack:
    """Postgres, Kafka and, if asked for, Airflow, from entering the context until leaving it.

    Everything listens on free ports of the loopback interface only, and keeps its state in its own folder, so that
    any number of stacks run side by side. When the context is left, or the process that entered it ends in whatever
    way, all processes are stopped and the folder is removed. The logs stay if the context was left by an exception.
    """

    def __init__(
        self,
        *,
        airflow: bool = False,
        spark_connect: bool = False,
        spark_cluster: bool = False,
        schema_registry: bool = False,
        celery: bool = False,
        pooler: Pooling | None = None,
        logins: bool = False,
        stock: bool = False,
        dags_folder: Path | None = None,
        triggers_folder: Path | None = None,
        workflows_folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        programs: Path | None = None,
        name: str | None = None,
        say: Callable[[str], None] = say,
    ) -> None:
        """Describe the stack; entering the context starts it.

        Args:
            airflow: Whether to start Airflow as well (api-server, scheduler, dag-processor, triggerer).
            spark_connect: Whether to start a Spark Connect server as well; ``start_spark_connect`` does it later.
            spark_cluster: Whether to start a Spark cluster as well, to which ``spark_default`` then leads;
                ``start_spark_cluster`` starts one later, to which nothing leads.
            schema_registry: Whether to start a schema registry as well; Airflow's connection ``registry`` leads to it.
            celery: Whether Airflow's tasks run on two Celery workers, next to two schedulers and two triggerers.
            pooler: How PgBouncer pools connections; the stack's programs then reach the work orders through it alone.
            logins: Whether Kafka has a listener for each way to log in as well, and Airflow a connection for each.
            stock: Whether Airflow keeps its own settings, except folders, ports and secrets: Dags are created paused,
                its pages ask for a login, and a change may take minutes to be noticed.
            dags_folder: Airflow's Dag bundle, the repository's ``dags`` unless given.
            triggers_folder: The trigger definitions, the repository's ``include/triggers`` unless given.
            workflows_folder: The workflow definitions, the repository's ``include/workflows`` unless given.
            environment: Variables to add to what Airflow and ``environment()`` have.
            programs: The folder of Python's programs that Airflow and Spark use, this interpreter's unless given.
            name: Name of the log folder below ``build/logs``, a new one unless given.
            say: What to do with a line of progress.
        """
        self._with_airflow = airflow
        self._with_spark_connect = spark_connect
        self._with_spark_cluster = spark_cluster
        self._with_schema_registry = schema_registry
        self._with_celery = celery
        self._pooler = None if pooler is None else PgBouncer(DATABASE, pooler)
        self._with_logins = logins
        self._stock = stock
        self._dags_folder = dags_folder or CHECKOUT / "dags"
        self._triggers_folder = triggers_folder or CHECKOUT / "include" / "triggers"
        self._workflows_folder = workflows_folder or CHECKOUT / "include" / "workflows"
        self._added = dict(environment or {})
        self._programs = programs or Path(sys.executable).parent
        self._say = say
        self._processes: Processes | None = None
        self._airflow: Airflow | None = None
        self._schema_registry: SchemaRegistryServer | None = None
        self._login_kafka: LoginKafka | None = None
        #: Whether to keep the logs even though the context is left without an exception.
        self.keep_logs = False
        #: Where the logs of all parts are, until the stack has stopped well.
        self.logs = CHECKOUT / "build" / "logs" / (name or f"stack-{os.getpid()}-{next(_UNNAMED)}")
        #: Where the stack keeps its state, until it stops.
        self.home: Path
        #: The Postgres server.
        self.postgres: Postgres
        #: The Kafka broker.
        self.kafka: Kafka
        #: The jars that a Spark application needs to read Kafka.
        self.spark_jars: list[Path]
        #: The Spark Connect server, which may not run.
        self.spark_connect = SparkConnect()
        #: The Spark cluster, which may not run.
        self.spark_cluster = SparkCluster()

    def __enter__(self) -> Self:
        """Start everything.

        Raises:
            StackError: A part did not start. Nothing is left running; its log is kept.
        """
        try:
            self._start()
        except BaseException:
            self.stop(keep_logs=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Ctrl-C and the end of the program are no failures to look into.
        self.stop(keep_logs=self.keep_logs or isinstance(error, Exception))

    @property
    def database_url(self) -> str:
        """The libpq URI of the database that holds the work orders. It holds a password."""
        return self.postgres.url(DATABASE)

    @property
    def client_url(self) -> str:
        """The libpq URI by which the stack's programs reach that database: the pooler's, if there is one."""
        return self.database_url if self._pooler is None else self._pooler.url

    @property
    def bootstrap_servers(self) -> str:
        """The address of the Kafka broker."""
        return self.kafka.bootstrap_servers

    @property
    def kafka_settings(self) -> dict[str, str | int | float | bool]:
        """The settings, in librdkafka's names, that a Kafka client needs."""
        return {"bootstrap.servers": self.bootstrap_servers}

    @property
    def airflow(self) -> Airflow:
        """Airflow's components.

        Raises:
            AssertionError: The stack was described without Airflow.
        """
        if self._airflow is None:
            raise AssertionError("This stack has no Airflow; ask for it by LocalStack(airflow=True).")
        return self._airflow

    @property
    def schema_registry(self) -> SchemaRegistryServer:
        """The schema registry.

        Raises:
            AssertionError: The stack has none.
        """
        if self._schema_registry is None:
            raise AssertionError("This stack has no schema registry; ask for it by LocalStack(schema_registry=True).")
        return self._schema_registry

    @property
    def airflow_url(self) -> str:
        """The address of Airflow's pages and of its API."""
        return self.airflow.url

    @property
    def airflow_login(self) -> tuple[str, str] | None:
        """The user and password that Airflow asks for with its own settings; None if everybody is an admin."""
        if not self._stock:
            return None
        passwords = json.loads(self.airflow.passwords_file.read_text(encoding="utf-8"))
        return "admin", passwords["admin"]

    @property
    def processes(self) -> Processes:
        """The supervisor that owns all processes of the stack."""
        if self._processes is None:
            raise AssertionError("The stack is not running.")
        return self._processes

    @property
    def supervisor_pid(self) -> int:
        """The id of the process that owns all others, and is the last one to end."""
        return self.processes.pid

    def process(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        *,
        unprivileged: bool = False,
    ) -> ManagedProcess:
        """Describe a process of the caller's own that ends with the stack, whatever ends that; ``start`` starts it.

        Args:
            name: Its name within the stack, and its log file's.
            command: Program and arguments. No secrets: arguments can be read by everyone on the machine.
            environment: Variables to add to ``environment()``.
            unprivileged: Run as ``nobody`` if we are root.
        """
        variables = {**self.environment(), **(environment or {})}
        return ManagedProcess(self.processes, name, command, variables, unprivileged=unprivileged)

    def environment(self) -> dict[str, str]:
        """Return the whole environment for a program that works with this stack. It holds passwords."""
        # The user's own Airflow settings would change the stack. Without byte code every task compiles Airflow again,
        # and CI systems and containers often set PYTHONDONTWRITEBYTECODE.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("AIRFLOW_") and name != "PYTHONDONTWRITEBYTECODE"
        }
        return {**inherited, **self.variables()}

    def _environment_of_airflow(self) -> dict[str, str]:
        """Return the environment of Airflow's components: their PATH leads to no `spark-submit`, as under systemd."""
        environment = self.environment()
        folders = [path for path in environment["PATH"].split(os.pathsep) if not Path(path, "spark-submit").exists()]
        return {**environment, "PATH": os.pathsep.join(folders)}

    def variables(self) -> dict[str, str]:
        """Return what this stack adds to the environment of a program. It holds passwords.

        The PATH is for people's shells and for tests that start a program by its name. JAVA_HOME names the Java whose
        version was checked.
        """
        java_home = str(find_java().home)
        programs = [str(self._programs), os.environ.get("PATH", os.defpath)]
        temporary = str(self.home / "tmp")
        java_options = f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData"
        return {
            "PATH": os.pathsep.join(programs),
            "JAVA_HOME": java_home,
            "TMPDIR": temporary,
            "PYTHONPATH": os.pathsep.join(_python_path()),
            "WORKORDERS_DATABASE_URL": self.client_url,
            "WORKORDERS_KAFKA": json.dumps(self.kafka_settings),
            "WORKORDERS_TRIGGERS": str(self._triggers_folder),
            "WORKORDERS_WORKFLOWS": str(self._workflows_folder),
            "WORKORDERS_SPARK_APPS": str(CHECKOUT / "spark_apps"),
            "WORKORDERS_SPARK_JARS": ",".join(map(str, self.spark_jars)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_LOCAL_DIRS": temporary,
            "SPARK_SUBMIT_OPTS": java_options,
            "SPARK_LAUNCHER_OPTS": java_options,
            "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": self.spark_connect.airflow_connection,
            **(self._airflow.settings if self._airflow else {}),
            **(self._login_kafka.variables if self._login_kafka else {}),
            **({"AIRFLOW_CONN_REGISTRY": self._schema_registry.airflow_connection} if self._schema_registry else {}),
            **(self.spark_cluster.variables if self._with_spark_cluster and self.spark_cluster.is_started else {}),
            **self._added,
        }

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop everything and remove what it left. May be called more than once."""
        if self._processes is None:
            return
        with self._progress("Stopping the local stack", "stopped"):
            self._processes.close()
        self._processes = None
        if self._login_kafka is not None:
            self._login_kafka.close()
        # The supervisor has removed it, unless it was killed itself.
        shutil.rmtree(self.home, ignore_errors=True)
        if keep_logs:
            self._say(f"The logs are in {self.logs}")
        else:
            shutil.rmtree(self.logs, ignore_errors=True)

    def _start(self) -> None:
        java = find_java()
        with self._progress("Looking for the jars of Kafka and Spark", "found"):
            kafka_jars, self.spark_jars = jars.fetch("kafka"), jars.fetch(jars.spark_group())
        self.home = Path(tempfile.mkdtemp(prefix="workorders-"))
        # Postgres may have to run as another user, who must be able to pass through.
        self.home.chmod(0o711)
        (self.home / "tmp").mkdir()
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(mode=0o700, parents=True)  # Airflow writes the password of its first user there
        self._processes = Processes(self.home, self.logs)
        self.postgres = Postgres(self._processes, self.home)
        self.kafka = self._describe_kafka(java, kafka_jars)
        with ThreadPoolExecutor(3) as pool:
            parts = [
                pool.submit(self._start_databases),
                pool.submit(self._start_kafka),
                pool.submit(self._prepare_spark),
            ]
        for part in parts:
            part.result()
        if self._with_spark_cluster:
            self.start_spark_cluster()
        if self._with_schema_registry:
            self._start_schema_registry()
        with ThreadPoolExecutor(2) as pool:
            late = [pool.submit(self.start_spark_connect)] if self._with_spark_connect else []
            if self._with_airflow:
                late.append(pool.submit(self._start_airflow))
        for part in late:
            part.result()

    def _describe_kafka(self, java: Java, jars: Sequence[Path]) -> Kafka:
        if not self._with_logins:
            return Kafka(self.processes, self.home, java=java, jars=jars)
        self._login_kafka = LoginKafka(self.processes, self.home, java=java, jars=jars)
        return self._login_kafka

    def _start_databases(self) -> None:
        with self._progress("Starting Postgres"):
            self.postgres.create()
            self.postgres.create_database(DATABASE, settings=LIMITS if self._pooler else None)
            self.postgres.create_database(AIRFLOW_DATABASE, settings=_AIRFLOW_SESSIONS)
        with self._progress("Making the tables of work orders"):
            self._make_tables()
        if self._pooler is not None:
            with self._progress("Starting PgBouncer"):
                self.start_pooler(self._pooler)

    def _make_tables(self) -> None:
        if self._programs == Path(sys.executable).parent:
            schema.upgrade(self.database_url)
            return
        # The tables of the package that is installed there.
        variables = {**os.environ, **self._added, "WORKORDERS_DATABASE_URL": self.database_url}
        command: list[str | Path] = [self._programs / "workorders", "db", "migrate"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StackError(f"{command[0]} db upgrade failed; the stack was not started: {done.stderr[-2000:]}")

    def _start_kafka(self) -> None:
        with self._progress("Starting Kafka"):
            self.kafka.create()

    def _prepare_spark(self) -> None:
        if find_archive(self.spark_jars) is None:
            with self._progress("Making an archive of Spark's classes, once for this installation", "made"):
                create_archive(self.spark_jars)

    def _start_schema_registry(self) -> None:
        with self._progress("Starting the schema registry"):
            registry = SchemaRegistryServer(self.process)
            registry.start()
            self._schema_registry = registry

    def start_pooler(self, pooler: PgBouncer) -> None:
        """Start a pooler in front of the database that holds the work orders; it ends with the stack."""
        pooler.start(self.processes, self.home, self.database_url)

    def start_spark_connect(self) -> None:
        """Start the Spark Connect server if it does not run."""
        if not self.spark_connect.is_started:
            with self._progress("Starting the Spark Connect server"):
                self.spark_connect.create(self.processes, self.environment())
                self.spark_connect.start()

    def start_spark_cluster(self) -> None:
        """Start the Spark cluster if it was not started."""
        if not self.spark_cluster.is_started:
            with self._progress("Starting a Spark master and two workers"):
                self.spark_cluster.create(self.processes, self.home, self.environment())
                self.spark_cluster.start()

    def _start_redis(self) -> str:
        with self._progress("Starting Redis"):
            redis = Redis(self.processes, self.home)
            redis.start(self.environment())
        return redis.url

    def _start_airflow(self) -> None:
        self._airflow = Airflow(
            self.home,
            self.logs,
            metadata_url=self.postgres.url(AIRFLOW_DATABASE, scheme="postgresql+psycopg2"),
            database_url=self.client_url,
            kafka_settings=self.kafka_settings,
            dags_folder=self._dags_folder,
            program=self._programs / "airflow",
            stock=self._stock,
            broker_url=self._start_redis() if self._with_celery else None,
        )
        with self._progress("Making Airflow's tables"):
            self._airflow.create(self.processes, self._environment_of_airflow())
        with self._progress("Starting Airflow"):
            self._airflow.start()

    def start_worker(self, name: str, *, queues: str) -> AirflowComponent:
        """Start one more Celery worker, for these queues, and wait until it is well."""
        worker = self.airflow.add_worker(self.processes, self._environment_of_airflow(), name, queues=queues)
        worker.start()
        return worker

    @contextmanager
    def _progress(self, what: str, done: str = "ready") -> Iterator[None]:
        """Report the start of a step, and its duration at the end."""
        self._say(f"{what} ...")
        begin = time.monotonic()
        yield
        self._say(f"{what} ... {done} in {time.monotonic() - begin:.1f} s")


def _python_path() -> list[str]:
    """Return the module search path of this process, as absolute paths: a task of Airflow works in another folder."""
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return list(dict.fromkeys(str(Path(entry).absolute()) for entry in [*given, str(CHECKOUT / "include")]))
