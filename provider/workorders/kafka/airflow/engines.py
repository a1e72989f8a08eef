"""Engines of users: each submits a batch somewhere. What was committed is for the ledger to tell."""

from importlib import import_module
from typing import Protocol

from workorders.core.exceptions import ConfigurationError


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


def load_engine(path: str, connection_id: str) -> Engine:
    """Return an engine of the class that an import path names.

    Args:
        path: such as `shop.engines.Serverless`.
        connection_id: of the Airflow connection that the trigger names, for the engine.

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
