"""A relay in a process of its own that kills or stops itself at a step: `python -m support.relay_process STEP SIGNAL`.

The steps are put around the product's functions here; no code of the product knows of them.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from workorders.kafka.connections import Connections
from workorders.kafka.relay import shard
from workorders.kafka.relay.definition import RelayDefinition
from workorders.kafka.relay.drain import drain
from workorders.kafka.relay.markers import Markers
from workorders.kafka.relay.sender import Sender

DEFINITION_VARIABLE = "TEST_RELAY"


def _stop() -> None:
    print("reached", flush=True)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))


def _before(owner: Any, name: str, when: Callable[..., bool]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def stopped(*arguments: Any, **named: Any) -> Any:
        if when(*arguments, **named):
            _stop()
        return original(*arguments, **named)

    setattr(owner, name, stopped)


def _after(owner: Any, name: str, when: Callable[..., bool]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def stopped(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        if when(result):
            _stop()
        return result

    setattr(owner, name, stopped)


def _second(*_: Any, **__: Any) -> bool:
    _second.calls += 1  # type: ignore[attr-defined]
    return bool(_second.calls == 2)  # type: ignore[attr-defined]


_second.calls = 0  # type: ignore[attr-defined]


def _flushed(sender: Sender) -> bool:
    sender._producer.flush(30)
    return _second()


STEPS: dict[str, Callable[[], None]] = {
    "fenced": lambda: _before(Markers, "last", lambda *_: True),
    "marker read": lambda: _after(Markers, "last", lambda _: True),
    "claimed": lambda: _before(Sender, "_send", _second),
    "produced": lambda: _before(Sender, "_commit", _second),
    "acknowledged": lambda: _before(Sender, "_commit", _flushed),
    "committed": lambda: _after(Sender, "_commit", _second),
    "deleted": lambda: _after(shard, "advance", _second),
}

if __name__ == "__main__":
    STEPS[sys.argv[1]]()
    drain(Connections.from_environment(), RelayDefinition.model_validate_json(os.environ[DEFINITION_VARIABLE]))
