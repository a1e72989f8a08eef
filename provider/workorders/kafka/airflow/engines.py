"""Where a batch runs: an engine submits it there. What was committed is for the ledger to tell."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.ingest_attempt import IngestAttempt

if TYPE_CHECKING:
    from workorders.kafka.spark.connect import ConnectSession


class Engine(Protocol):
    """Makes one attempt at one batch, somewhere."""

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


def load_engine(path: str, connection_id: str, options: Sequence[str]) -> Engine:
    """Return an engine of the class that an import path names.

    Args:
        path: such as `shop.engines.Serverless`.
        connection_id: of the Airflow connection that the trigger names, for the engine.
        options: further arguments of the Spark application, for the engine to append.

    Raises:
        ConfigurationError: it cannot be imported, or has no `submit`.
    """
    module, _, name = path.rpartition(".")
    try:
        engine = getattr(import_module(module), name)(connection_id, options)
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


@dataclass(frozen=True, slots=True)
class SparkConnectEngine:
    """Does the driver's part for one batch in this process, with a session on a running server."""

    session: "ConnectSession"
    attempt: IngestAttempt
    """The attempt that the task has begun; an application would check the batch again."""
    log: "logging.Logger | Any"

    def submit(self, batch: int, epoch: int) -> None:
        """Ingest the batch on the server and let it grow, and log the table of its ranges.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
        """
        # A task that submits an application loads neither PySpark nor Arrow.
        from workorders.kafka.spark.driver import ingest  # noqa: PLC0415

        del batch, epoch  # those of the attempt
        errors = ingest(self.attempt, self.session.open, self._report)
        if errors:
            raise StalledError(" ".join(errors))

    def _report(self, text: str) -> None:
        for line in text.splitlines():
            self.log.info("%s", line)
