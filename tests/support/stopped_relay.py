"""A relay that kills or stops itself at a step, and what must be in Kafka in the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from local_stack.stack import CHECKOUT
from support.outbox import Outbox, assert_exactly_once
from support.relay_process import DEFINITION_VARIABLE
from workorders.outbox import OutboxMessage

MESSAGES: Final = 300
KEYS: Final = range(7)
_PYTHON_PATH = os.pathsep.join(str(CHECKOUT / folder) for folder in ("provider", "include", "tests", "tools"))


@contextmanager
def relay_that(step: str, signal_: str, outbox: Outbox, *, seconds: float = 60.0) -> Iterator["subprocess.Popen[str]"]:
    """Start a relay and wait until it has come to the step, where it kills or stops itself.

    Args:
        step: of `relay_process`.
        signal_: name of the signal that it sends to itself.
        outbox: what it drains.
        seconds: limit of its transactions in Kafka.
    """
    environment = {
        **os.environ,
        **outbox.connections.to_environment(),
        DEFINITION_VARIABLE: outbox.definition.model_dump_json(),
        "PYTHONPATH": _PYTHON_PATH,
    }
    command = [sys.executable, "-m", "support.relay_process", step, signal_, str(seconds)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "reached\n"
            yield process
        finally:
            process.kill()


def write(outbox: Outbox, topic: str, start: int = 0, *, keys: Sequence[int] = KEYS) -> list[bytes]:
    """Commit messages of seven keys, numbered on from `start`, and return their values."""
    values = [b"%d-%d" % (keys[n % len(keys)], n) for n in range(start, start + MESSAGES)]
    outbox.write(*(OutboxMessage(topic=topic, key=value.split(b"-")[0], value=value) for value in values))
    return values


def killed(step: str, outbox: Outbox) -> None:
    """Start a relay that kills itself at the step, and let its leases run out."""
    with relay_that(step, "SIGKILL", outbox) as process:
        assert process.wait(30) == -signal.SIGKILL
    outbox.leases_run_out()


def assert_whole(outbox: Outbox, topic: str, expected: list[bytes]) -> None:
    """All are there once, each key in its order, and nothing waits or is claimed."""
    found = [value or b"" for value in outbox.values(topic)]
    assert_exactly_once(found, expected)
    assert_in_order(found)
    assert outbox.waiting() == 0
    assert outbox.ask("SELECT * FROM workorders.outbox_claims") == []


def assert_in_order(values: Sequence[bytes]) -> None:
    """Numbers of a key grow."""
    last: dict[bytes, int] = {}
    for value in values:
        key, number = value.split(b"-")
        assert last.get(key, -1) < int(number), f"{value!r} came behind {last[key]}"
        last[key] = int(number)
