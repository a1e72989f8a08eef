"""The delay before the next try during an outage or a stall: 1, 2, 4 ... 60 seconds, until it succeeds.

Runs that failed are retried by the policy of their workflow instead: `runs/sql/finish_and_retry.sql`.
"""

MAX_SECONDS = 60
_DOUBLINGS_TO_LONGEST = 6


def delay_seconds(failures: int) -> int:
    """Return the delay after a number of failures in a row; after one failure it is one second.

    The exponent is bounded before the power is taken, so that the thousandth failure overflows nothing.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS_TO_LONGEST)
    return min(MAX_SECONDS, 1 << doublings)
