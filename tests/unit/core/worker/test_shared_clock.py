"""The clock that a process and its parent share, read while it is written."""

import os
import time

from workorders.core.worker.shared_clock import SharedClock

WRITES = 200_000


def test_a_run_that_has_just_begun_never_looks_old_to_a_reader() -> None:
    clock = SharedClock.create()
    writer = os.fork()
    if writer == 0:
        for number in range(WRITES):
            clock.start(number)
            clock.stop(number)
        os._exit(0)
    longest = 0.0
    while os.waitpid(writer, os.WNOHANG) == (0, 0):
        longest = max(longest, clock.read()[1])
    assert longest < 60
    clock.close()


def test_a_run_that_has_ended_counts_no_time_and_nothing_is_no_run() -> None:
    clock = SharedClock.create()
    assert clock.read() == (None, 0.0)
    clock.start(7)
    time.sleep(0.001)
    number, seconds = clock.read()
    assert number == 7
    assert seconds > 0
    clock.stop(7)
    assert clock.read() == (7, 0.0)
    clock.clear()
    assert clock.read() == (None, 0.0)
    clock.close()
