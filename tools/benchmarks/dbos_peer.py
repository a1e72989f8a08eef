"""DBOS for Python on the same Kafka and Postgres: its environment and its process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import messages, steady
from benchmarks.figures import FOLDER
from local_stack.stack import CHECKOUT, LocalStack

_READY: Final = "DBOS launched"
_READY_SECONDS: Final = 60.0
_DATABASE: Final = "dbos"
_ENVIRONMENT: Final = FOLDER / "dbos"
LOCK: Final = Path(__file__).with_name("dbos.lock")


def create_database(stack: LocalStack) -> None:
    """Create the database in which DBOS keeps its workflows."""
    stack.postgres.create_database(_DATABASE)


def waits(produced: steady.Messages, topic: str, per_second: float, seconds: float) -> list[steady.Waited]:
    """Produce evenly to a new topic, and return how long DBOS took from messages to the ends of their functions."""
    messages.create_topics(produced.stack.bootstrap_servers, [topic], 1)
    with _consumer(produced.stack, topic):
        return produced.produce([topic], per_second, seconds)(steady.INSERTED)


@contextmanager
def _consumer(stack: LocalStack, topic: str) -> Iterator[None]:
    """Let DBOS insert a row for each message of a topic, until the context is left."""
    process = stack.process(
        f"dbos-{topic}",
        [_python(), "-m", "benchmarks.dbos_app", stack.bootstrap_servers, topic],
        {
            "PYTHONPATH": str(CHECKOUT / "tools"),
            "DBOS_DATABASE_URL": stack.postgres.url(_DATABASE, scheme="postgresql+psycopg"),
        },
    )
    process.start()
    try:
        process.wait_until(lambda: _READY in process.log.read_text(), seconds=_READY_SECONDS, what="DBOS")
        yield
    finally:
        process.stop()


def _python() -> Path:
    """Return the interpreter of DBOS's environment, with the versions that `requirements.lock` has of all others."""
    uv, python = Path(sys.executable).with_name("uv"), _ENVIRONMENT / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, _ENVIRONMENT], check=True)
    packages: list[str | Path] = ["--requirement", LOCK, "--constraints", CHECKOUT / "requirements.lock"]
    subprocess.run([uv, "pip", "install", "--quiet", "--require-hashes", "--python", python, *packages], check=True)
    return python
