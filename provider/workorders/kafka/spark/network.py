"""Protects the traffic between Spark's processes, by defaults for settings that are not given.

The function that the executors run has the database's URL and Kafka's credentials. Spark's own defaults open its ports
on the machine's network address, require no secret, and encrypt nothing.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from workorders.core.exceptions import ConfigurationError

AUTHENTICATE: Final = "spark.authenticate"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a setting
CIPHER: Final = "spark.network.crypto.cipher"
LOOPBACK: Final = "127.0.0.1"

_ONE_PROCESS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # Loopback is open to every user of the machine, and Spark's ports execute what they receive.
    AUTHENTICATE: "true",
}
_CLUSTER: Final[Mapping[str, str]] = {
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
_GCM_WORKS_SINCE: Final = (4, 2)
_GENERATES_SECRET: Final = ("yarn", "k8s://")
"""Masters for which Spark generates the secret and distributes it to the executors."""


def protection(given: Mapping[str, str]) -> dict[str, str]:
    """Return defaults for the settings of an application that are not given; the master is one of them.

    Raises:
        ConfigurationError: the master needs a secret that is not among the settings.
    """
    master = given.get("spark.master", "")
    defaults = _ONE_PROCESS if is_one_process(master) else {**_CLUSTER, CIPHER: network_cipher()}
    missing = {name: value for name, value in defaults.items() if name not in given}
    is_authenticated = {**missing, **given}[AUTHENTICATE].lower() == "true"
    makes_its_own = is_one_process(master) or master.startswith(_GENERATES_SECRET)
    if is_authenticated and not makes_its_own and SECRET not in given:
        raise ConfigurationError(
            f"The Spark master {master} needs a shared secret, because the executors get the passwords of Postgres and "
            f"Kafka over Spark's network; no work order was created. Set {SECRET} in the spark-defaults.conf of the "
            f"Airflow workers, the master and its workers; or set {AUTHENTICATE}: false in the trigger's spark.conf if "
            f"only trusted machines reach that network."
        )
    return missing


def network_cipher() -> str:
    """Return the cipher for the traffic of the installed PySpark; master, workers, and applications need the same.

    AES/GCM detects changed bytes, and AES/CTR, Spark's default, does not. Spark 4.0 and 4.1 lose messages with AES/GCM
    (SPARK-56227): a worker never registers with its master.
    """
    major, minor = version("pyspark").split(".")[:2]
    return "AES/GCM/NoPadding" if (int(major), int(minor)) >= _GCM_WORKS_SINCE else "AES/CTR/NoPadding"


def is_one_process(master: str) -> bool:
    """Return whether the executors of a master are threads of the driver's JVM."""
    # Not local-cluster[...], whose executors are separate processes.
    return master == "local" or master.startswith("local[")
