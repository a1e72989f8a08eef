"""What a submitted Spark application needs where it runs: this package, and the secrets of its connections."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from workorders.core.environment import DATABASE_URL_VARIABLE, FILE_SUFFIX
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.secrets import KAFKA_VARIABLE, JobSecrets
from workorders.kafka.spark.installed_package import package_archive
from workorders.kafka.spark.network import is_one_process

_IN_IMAGE: Final = "local:"
"""How Spark writes the path of a file that the machines of the driver and the executors have already."""
_DRIVERS_VARIABLES: Final[Mapping[str, str]] = {
    "yarn": "spark.yarn.appMasterEnv.",
    "k8s://": "spark.kubernetes.driverEnv.",
}
"""By the beginning of the master: the settings that give a driver in cluster mode its environment variables."""
_KUBERNETES_KEY: Final = "spark.kubernetes.driver.secretKeyRef."
"""Settings that name the entry of a Kubernetes secret for an environment variable of the driver."""


def make_hook(operator: SparkSubmitOperator) -> SparkSubmitHook:
    """Return the hook that submits.

    Raises:
        ConfigurationError: the connection leads to Kubernetes, and the provider for it is not installed.
    """
    try:
        return operator._get_hook()
    except (NameError, RuntimeError) as error:  # each version of Airflow's provider has another bare error for it
        raise ConfigurationError(
            f"The Spark connection {operator._conn_id} leads to Kubernetes, and Airflow's provider for it is not "
            f"installed here; nothing was sent there. Install apache-airflow-providers-cncf-kubernetes."
        ) from error


def send_package(hook: SparkSubmitHook, application: str) -> None:
    """Let Spark send this package to other machines, so that their Python workers run the task's.

    Not if the application is in the image of these machines, because the package is there as well.

    Raises:
        ConfigurationError: the package's files change meanwhile.
    """
    if not (is_one_process(hook._connection["master"]) or application.startswith(_IN_IMAGE)):
        hook._py_files = ",".join(filter(None, [hook._py_files, str(package_archive())]))


def secrets_for_driver(hook: SparkSubmitHook, connections: JobSecrets) -> AbstractContextManager[None]:
    """Return the context in which the application is submitted, so that its driver finds its secrets.

    A driver in client mode inherits this process's environment. A driver elsewhere reads mounted files: Spark stores
    and shows everything that it is sent.

    Raises:
        ConfigurationError: the driver would be elsewhere, and cannot run there or find its secrets.
    """
    if hook._connection["deploy_mode"] != "cluster":
        return connections.in_environment()
    _require_references(hook)
    return nullcontext()


def _require_references(hook: SparkSubmitHook) -> None:
    master, variables = hook._connection["master"], hook._env_vars or {}
    prefix = next((names for begin, names in _DRIVERS_VARIABLES.items() if master.startswith(begin)), None)
    if prefix is None:
        raise ConfigurationError(
            f"The Spark connection {hook._conn_id} has the deploy mode cluster and the master {master}, for which "
            f"spark-submit refuses applications in Python; nothing was sent there. Use the deploy mode client."
        )
    given = {*hook._conf, *(prefix + name for name in variables)}
    files = {name: f"{prefix}{name}{FILE_SUFFIX}" for name in (DATABASE_URL_VARIABLE, KAFKA_VARIABLE)}
    by_value = [prefix + name for name in files if prefix + name in given]
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
