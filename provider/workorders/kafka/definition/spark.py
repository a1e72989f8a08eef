"""The fields of the Spark application that ingests a trigger's batches."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from workorders.core.definitions.fields import Definition, ImportPath, Whole, expecting
from workorders.core.secrets import assigns_secret, has_login, is_secret_reference, is_secret_setting

# A cold application's time is the JVM's start. Compiling with C1 alone and collecting with one thread took it from 13
# to 11 s on two cores; a batch is too short for the other compiler to pay.
DEFAULT_CONF: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN",
}
"""Spark settings of the application; a trigger's `conf` overrides them."""

_EXACTLY_ONCE: Final = re.compile(
    r"group\.?id|isolation\.?level|(?:starting|ending)\.?offsets|fail\.?on\.?data\.?loss|min\.?partitions"
    r"|auto\.?commit|auto\.?offset\.?reset",
    re.IGNORECASE,
)
_ELSEWHERE: Final[Mapping[str, str]] = {
    "spark.app.name": "it is derived from the trigger's name",
    "spark.master": "it belongs to the Spark connection",
    "spark.submit.deploymode": "it belongs to the Spark connection",
}


def _conf(value: Any) -> dict[str, str | int | bool]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected Spark settings such as {{spark.driver.memory: 2g}}, got {value!r}.")
    for key, setting in value.items():
        _check_conf(key, setting)
    return dict(value)


def _check_conf(key: Any, setting: Any) -> None:
    if not isinstance(key, str) or not key.startswith("spark."):
        raise ValueError(f"expected names of settings that begin with spark., got {key!r}.")
    # Secrets first, so that no other error repeats one.
    is_secret = is_secret_setting(key) or assigns_secret(str(setting))
    if (is_secret and not is_secret_reference(key)) or has_login(str(setting)):
        raise ValueError(
            f"{key} may carry a secret, but Spark's settings are stored and shown; use a connection, or name a file."
        )
    if not isinstance(setting, str | int | bool):
        raise ValueError(f"expected a text, a whole number, true or false for {key}, got {setting!r}.")
    if key.lower() in _ELSEWHERE:
        raise ValueError(f"{key} cannot be set here; {_ELSEWHERE[key.lower()]}.")
    if _EXACTLY_ONCE.search(key):
        raise ValueError(f"{key} would break exactly-once or the order of messages; leave it out.")


class SparkSettings(Definition):
    """Settings of the Spark application; the master and the deploy mode are the Spark connection's."""

    conf: Annotated[dict[str, str | int | bool], BeforeValidator(_conf)] = Field(default_factory=dict)
    """Spark's settings by their full names, such as `spark.driver.memory: 2g`. Secrets, and what would break
    exactly-once, are refused. The cores of an executor are the partitions that it ingests at the same time."""
    max_writers: Whole | None = Field(default=None, ge=1, le=10_000)
    """Maximum number of ranges of a batch that are written at the same time, each through its own connection to
    Postgres. More ranges are written one group after the other. By default, as many as Spark has cores."""
    engine: Annotated[ImportPath | None, expecting("a class in a module such as shop.engines.Serverless")] = None
    """Import path of a class of yours that submits the batches elsewhere, instead of to the Spark connection."""
