"""A relay in a separate process that kills or stops itself at a step.

`python -m support.relay_process STEP SIGNAL SECONDS`, where SECONDS is the limit of a transaction in Kafka.

The steps are put around the product's functions here; no code of the product knows of them.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from workorders.kafka.client.secrets import JobSecrets
from workorders.outbox.relay import producer, shard
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import TransactionalProducer
from workorders.outbox.relay.relay import run_relay
from workorders.outbox.store import claims, holds

DEFINITION_VARIABLE = "TEST_RELAY"


def _stop() -> None:
    print("reached", flush=True)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))


def _around(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Let `wrapper` be called with the original and its arguments in place of it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return wrapper(original, *arguments, **named)

    setattr(owner, name, wrapped)


def _before(owner: Any, name: str, when: Callable[..., bool]) -> None:
    def stopped(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if when(*arguments, **named):
            _stop()
        return original(*arguments, **named)

    _around(owner, name, stopped)


def _after(owner: Any, name: str, when: Callable[..., bool]) -> None:
    def stopped(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        if when(result):
            _stop()
        return result

    _around(owner, name, stopped)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _second(*_: Any, **__: Any) -> bool:
    _second.calls += 1  # type: ignore[attr-defined]
    return bool(_second.calls == 2)  # type: ignore[attr-defined]


_second.calls = 0  # type: ignore[attr-defined]


def _flushed(sender: TransactionalProducer) -> bool:
    sender._producer.flush(30)
    return True


STEPS: dict[str, Callable[[], None]] = {
    "fenced": lambda: _before(Checkpoints, "last", _always),
    "checkpoint read": lambda: _after(Checkpoints, "last", _always),
    "settled": lambda: _after(shard, "settle_claims", _always),
    "claiming": lambda: _before(claims, "_write_claim", _second),
    "claimed": lambda: _after(claims, "claim", _second),
    "filled": lambda: _after(TransactionalProducer, "_produce", _second),
    "produced": lambda: _before(TransactionalProducer, "_commit", _second),
    "acknowledged": lambda: _before(TransactionalProducer, "_commit", lambda sender: _flushed(sender) and _second()),
    "first committed": lambda: _after(TransactionalProducer, "_commit", _always),
    "committed": lambda: _after(TransactionalProducer, "_commit", _second),
    "deleted": lambda: _after(claims, "complete", _always),
}

RETRY_STEPS: dict[str, Callable[[], None]] = {
    "claiming again": lambda: _before(claims, "_write_claim", _always),
    "claimed again": lambda: _after(claims, "claim", _always),
    "produced again": lambda: _before(TransactionalProducer, "_commit", _always),
    "acknowledged again": lambda: _before(TransactionalProducer, "_commit", _flushed),
    "committed again": lambda: _after(TransactionalProducer, "_commit", _always),
    "deleting again": lambda: _before(claims, "complete", _always),
    "hold ended again": lambda: _after(holds, "release", _always),
    "deleted again": lambda: _after(claims, "complete", _always),
}
"""Where the first batch of the process is that of a held key, whose oldest message tries again."""

if __name__ == "__main__":
    vars(producer)["SECONDS"] = float(sys.argv[3])
    {**STEPS, **RETRY_STEPS}[sys.argv[1]]()
    run_relay(JobSecrets.from_environment(), RelayDefinition.model_validate_json(os.environ[DEFINITION_VARIABLE]))
