"""Gives a Python process that has this folder on its path another clock, FAULTS_CLOCK_SECONDS ahead of the machine."""

import os
import time

_SHIFT_SECONDS = int(os.environ["FAULTS_CLOCK_SECONDS"])
_time, _time_ns = time.time, time.time_ns


def _shifted() -> float:
    return _time() + _SHIFT_SECONDS


def _shifted_ns() -> int:
    return _time_ns() + _SHIFT_SECONDS * 10**9


vars(time).update(time=_shifted, time_ns=_shifted_ns)
