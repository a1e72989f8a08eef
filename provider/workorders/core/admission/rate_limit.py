"""How many events per second a trigger takes, all processes together: a token bucket in Postgres."""

import math

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/rate_limit.sql")


def acquire_token(connection: Connection, trigger_id: int, per_second: float, burst: int) -> int:
    """Acquire one token of the trigger's bucket. Return 0, or in how many whole seconds there is a token again.

    It is one statement. Concurrent callers wait for the row until the transaction ends, so use autocommit mode. The
    table is unlogged: a commit waits for no disk, and after a crash of Postgres all buckets are full.

    Args:
        connection: in autocommit mode.
        trigger_id: whose bucket.
        per_second: tokens that are added per second.
        burst: maximum tokens in the bucket.
    """
    arguments = {"trigger_id": trigger_id, "per_second": per_second, "burst": burst}
    granted, tokens = fetch_row(connection, _QUERIES["acquire"], arguments)
    return 0 if granted else max(1, math.ceil((1 - tokens) / per_second))
