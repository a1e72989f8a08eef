"""When a worker takes itself for dead, without a database."""

import threading
import time
from uuid import uuid4

import pytest

from workorders.core import workers
from workorders.core.workers import Heartbeat


def test_after_a_suspension_of_the_machine_the_processes_are_killed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, suspended = threading.Event(), [0.0]
    monkeypatch.setattr(workers, "_now", lambda: time.monotonic() + suspended[0])
    with Heartbeat("", uuid4(), seconds=3600, grace_seconds=60, on_loss=lost.set, log=print) as beating:
        assert not lost.wait(1.5)
        suspended[0] = 50
        assert lost.wait(10)
        assert beating.is_lost
