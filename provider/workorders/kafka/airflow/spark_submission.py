"""Runs an attempt at a batch with Spark: on a server, submitted with its jars and secrets, or by a user's engine."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from workorders.airflow.task_errors import reason
from workorders.core.environment import FILE_SUFFIX, SPARK_APPS_VARIABLE, SPARK_JARS_VARIABLE
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.secrets import is_secret_setting
from workorders.kafka.airflow.connections import connect_server
from workorders.kafka.client.secrets import SECRET_VARIABLES, JobSecrets
from workorders.kafka.definition.trigger import DEFAULT_CONF, KafkaTriggerDefinition
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.class_archive import use_archive
from workorders.kafka.spark.installed_package import package_archive
from workorders.kafka.spark.kafka_source import split_jars
from workorders.kafka.spark.network import is_one_process
from workorders.kafka.spark.programs import find_spark_submit, python_variables

if TYPE_CHECKING:
    from workorders.kafka.spark.connect import ConnectSession

_IN_IMAGE: Final = "local:"
"""How Spark writes the path of a file that the machines of the driver and the executors have already."""
_DRIVERS_VARIABLES: Final[Mapping[str, str]] = {
    "yarn": "spark.yarn.appMasterEnv.",
    "k8s://": "spark.kubernetes.driverEnv.",
}
"""By the beginning of the master: the settings that give a driver in cluster mode its environment variables."""
_LINEAGE: Final = "spark.openlineage."
_KUBERNETES_KEY: Final = "spark.kubernetes.driver.secretKeyRef."
"""Settings that name the entry of a Kubernetes secret for an environment variable of the driver."""
_TELLS_NOTHING: Final = re.compile(
    # Frames of a stack and their sources; what Spark's log reports all the time; what begins a stack or a JVM.
    r"\s|$|\d\S+ \S+ (DEBUG|INFO|WARN) |Traceback |WARNING: |Picked up |Setting default log|Using Spark's default"
)
"""The beginning of a line that does not tell why an application has failed."""
_TELLING_LINES: Final = 3
_LINE_CHARACTERS: Final = 300


class Engine(Protocol):
    """Makes one attempt at one batch, somewhere. What was committed is for the ledger to tell."""

    def submit(self, batch: int, epoch: int) -> None:
        """Run the Spark application for a batch, and return when it has ended.

        The task asks the ledger afterwards: an end without an error proves nothing, and an error does not mean that
        nothing was committed.

        Args:
            batch: number of the batch, the application's `--batch`.
            epoch: number of the attempt, the application's `--epoch`; it fences all attempts before.

        Raises:
            AirflowException: the application was not submitted, or it failed; an `OSError` means the same. Its text is
                logged.
        """


def load_engine(path: str, connection_id: str) -> Engine:
    """Return an engine of the class that an import path such as `shop.engines.Serverless` names.

    Raises:
        ConfigurationError: it cannot be imported, or has no `submit`.
    """
    module, _, name = path.rpartition(".")
    try:
        engine = getattr(import_module(module), name)(connection_id)
    except Exception as error:
        raise ConfigurationError(
            f"The engine {path} that spark.engine names cannot be made: {type(error).__name__}: {error}. The batch was "
            f"not submitted; correct the path, or install its module where the Airflow workers run."
        ) from error
    if not callable(getattr(engine, "submit", None)):
        raise ConfigurationError(
            f"The engine {path} that spark.engine names has no method submit(batch, epoch); the batch was not "
            f"submitted. Write the method, or name another class."
        )
    return engine  # type: ignore[no-any-return]


class EngineOperator(SparkSubmitOperator):
    """Runs an attempt at a batch of a trigger where its Spark connection leads.

    The type of the connection decides how: `spark` submits an application, `spark_connect` runs the batch on a Spark
    Connect server that is running already, which saves the start of a JVM. Your own engine decides itself.
    """

    def __init__(self, *, definition: KafkaTriggerDefinition, **kwargs: Any) -> None:
        spark = definition.spark
        given: dict[str, Any] = {"conn_id": definition.spark_connection, "name": f"workorders {definition.name}"}
        apps = os.environ.get(SPARK_APPS_VARIABLE) or Path(kafka_source.__file__).with_name("apps")
        # With True, a task that is cleared after its success would find its old application and not submit again.
        given |= {"application": str(Path(apps, "create_work_orders.py")), "durable": False}
        given |= kwargs | {"conf": {**DEFAULT_CONF, **spark.conf, **(kwargs.get("conf") or {})}}
        _add_kafka_source(given)
        super().__init__(**given)
        self.definition = definition
        self._printed: deque[str] = deque(maxlen=_TELLING_LINES)
        self._session: ConnectSession | None = None

    def run_engine(self, context: Context, attempt: IngestAttempt, report: Callable[[str], object]) -> str:
        """Run the attempt, and return why that was not possible or failed, or an empty text."""
        own, is_sent = self.definition.spark.engine, False
        try:
            if own is not None:
                engine = load_engine(own, self._conn_id)
                is_sent = True
                engine.submit(attempt.batch_id, attempt.epoch)
            elif (server := connect_server(self._conn_id)) is not None:
                # A task that submits loads neither PySpark nor Arrow.
                from workorders.kafka.spark.connect import ConnectSession  # noqa: PLC0415
                from workorders.kafka.spark.driver import ingest  # noqa: PLC0415

                conf = {name: value for name, value in (self.conf or {}).items() if DEFAULT_CONF.get(name) != value}
                with ConnectSession(server, conf=conf) as self._session:
                    is_sent = True
                    return " ".join(ingest(attempt, self._session.open, report))
            else:
                self.submit(context, attempt)
        except (AirflowException, OSError, RuntimeError, ValueError) as error:
            is_sent = is_sent or (self._hook is not None and self._hook._submit_sp is not None)
            what = "The Spark application failed" if is_sent else "Nothing was submitted"
            failure = f"{what}: {reason(error)}"
            self.log.error("%s", failure)
            return failure
        return ""

    def on_kill(self) -> None:
        """End the Spark application, or the query on the server; what another engine has submitted continues."""
        if self._session is not None:
            self._session.release()
        elif self.definition.spark.engine is None:
            super().on_kill()

    def submit(self, context: Context, attempt: IngestAttempt) -> None:
        """Submit the application, and wait for its end.

        Raises:
            ConfigurationError: the connection leads to a place where the application cannot run, or there is no
                `spark-submit`.
            AirflowException: the application failed; the text has how it ended, and the last lines that tell why.
            OSError: `spark-submit` cannot be started.
        """
        self.application_args = ["--batch", str(attempt.batch_id), "--epoch", str(attempt.epoch)]
        jars = split_jars(self.jars)
        if self.driver_class_path is None and all(jar.is_file() for jar in jars):
            # The driver's JVM maps Spark's classes, if `workorders spark archive` has made an archive for it.
            self.conf = use_archive(self.conf or {}, jars)
        # Airflow makes the hook that submits when it has added OpenLineage's properties. This one is for the check.
        self._hook = None
        with environment_of_driver(self._get_hook(), attempt.secrets):
            try:
                # Airflow's wrapper warns of a call that does not come from `execute`, as after the task was deferred.
                unwrap(SparkSubmitOperator.execute)(self, context)
            except AirflowException as error:
                raise AirflowException(self._explain(error, attempt.secrets)) from error

    def _get_hook(self) -> SparkSubmitHook:
        """Return the hook that submits; Airflow's `execute` calls it when `conf` is complete."""
        conf = self.conf or {}
        # Airflow adds OpenLineage's properties if `[openlineage] spark_inject_transport_info` is set.
        left_out = [name for name in conf if name.startswith(_LINEAGE) and is_secret_setting(name)]
        if left_out:
            self.log.warning(
                "%s is not given to spark-submit, whose arguments everyone on this machine can read. Set it in "
                "spark-defaults.conf.",
                ", ".join(left_out),
            )
        self.conf = {name: value for name, value in conf.items() if name not in left_out}
        try:
            hook = super()._get_hook()
        except (NameError, RuntimeError) as error:  # each version of Airflow's provider has another bare error for it
            raise ConfigurationError(
                f"The Spark connection {self._conn_id} leads to Kubernetes, and Airflow's provider for it is not "
                f"installed here; nothing was sent there. Install apache-airflow-providers-cncf-kubernetes."
            ) from error
        # That of this environment, which the PATH of a task need not lead to.
        hook._connection["spark_binary"] = find_spark_submit(hook._connection["spark_binary"])
        self._printed.clear()
        process = hook._process_spark_submit_log
        hook._process_spark_submit_log = lambda itr: process(self._noted(itr))  # type: ignore[method-assign]
        # So that the Python workers of other machines run the task's package; an image that has the application has it.
        if not (is_one_process(hook._connection["master"]) or self.application.startswith(_IN_IMAGE)):
            hook._py_files = ",".join(filter(None, [hook._py_files, str(package_archive())]))
        return hook

    def _noted(self, lines: Iterable[str]) -> Iterator[str]:
        """Pass on what the submission prints, and keep the last lines that tell why it has failed."""
        for line in lines:
            if not _TELLS_NOTHING.match(line):
                self._printed.append(line.strip()[:_LINE_CHARACTERS])
            yield line

    def _explain(self, error: AirflowException, secrets: JobSecrets) -> str:
        """Return how the application ended and why, in one line; Airflow's own text begins with the whole command."""
        process = None if self._hook is None else self._hook._submit_sp
        text = one_line(str(error).partition("\nLast spark-submit output:")[0])
        if process is not None and process.returncode:
            text = f"spark-submit ended with exit code {process.returncode}"
        lines = secrets.mask(" / ".join(self._printed))
        return f"{text.rstrip('.')}: {lines}" if lines else f"{text.rstrip('.')}, and printed no reason."


def environment_of_driver(hook: SparkSubmitHook, connections: JobSecrets) -> AbstractContextManager[None]:
    """Return the context in which the application is submitted, so that its driver finds its Python and its secrets.

    A driver in client mode inherits this process's environment. A driver elsewhere has its own Python, and reads
    mounted files: Spark stores and shows everything that it is sent.

    Raises:
        ConfigurationError: the driver would be elsewhere, and cannot run there or find its secrets.
    """
    if hook._connection["deploy_mode"] != "cluster":
        given = {**os.environ, **(hook._env_vars or {})}
        return connections.in_environment(**python_variables(hook._connection["master"], given))
    _require_references(hook, tuple(connections.to_environment()))
    return nullcontext()


def _require_references(hook: SparkSubmitHook, needed: Sequence[str]) -> None:
    """Refuse a driver that could not find these variables, or that would get one of them by value."""
    master, variables = hook._connection["master"], hook._env_vars or {}
    prefix = next((names for begin, names in _DRIVERS_VARIABLES.items() if master.startswith(begin)), None)
    if prefix is None:
        raise ConfigurationError(
            f"The Spark connection {hook._conn_id} has the deploy mode cluster and the master {master}, for which "
            f"spark-submit refuses applications in Python; nothing was sent there. Use the deploy mode client."
        )
    given = {*hook._conf, *(prefix + name for name in variables)}
    files = {name: f"{prefix}{name}{FILE_SUFFIX}" for name in needed}
    by_value = [prefix + name for name in SECRET_VARIABLES if prefix + name in given]
    if by_value:
        raise ConfigurationError(
            f"{by_value[0]} has a secret, and Spark stores and shows its settings; nothing was sent there. Mount the "
            f"secret as a file for the driver, and name the file in {by_value[0]}{FILE_SUFFIX}."
        )
    if any(not given & {file, f"{_KUBERNETES_KEY}{name}"} for name, file in files.items()):
        raise ConfigurationError(
            f"The Spark connection {hook._conn_id} has the deploy mode cluster, and its driver has none of the secrets "
            f"of this process; nothing was sent there. Mount them as files for the driver, and name the files in the "
            f"trigger's spark.conf: {' and '.join(files.values())}."
        )


def _add_kafka_source(arguments: dict[str, Any]) -> None:
    """Name the jars of Spark's Kafka source, or else its Maven package, unless the arguments name one of them."""
    jars = os.environ.get(SPARK_JARS_VARIABLE)
    if jars:
        arguments.setdefault("jars", jars)
    if not (arguments.get("jars") or arguments.get("packages") or "spark.jars.packages" in arguments["conf"]):
        arguments["packages"] = kafka_source.package()
        arguments.setdefault("exclude_packages", kafka_source.EXCLUDED)
