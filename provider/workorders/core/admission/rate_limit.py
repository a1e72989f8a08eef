"""How many events a second a trigger takes, by all processes together: a bucket in Postgres that fills with time."""

import math

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/rate_limit.sql")


def take(connection: Connection, trigger_id: int, per_second: float, burst: int) -> int:
    """Take one event out of the trigger's bucket; return 0, or after how many whole seconds there is room again.

    One statement. Whoever takes from the same bucket waits for it until the transaction ends, so ask for it in
    autocommit mode. The table is not logged: a commit waits for no disk, and after a crash of Postgres all are full.

    Args:
        connection: in autocommit mode.
        trigger_id: whose bucket.
        per_second: how fast it fills.
        burst: how much it holds.
    """
    arguments = {"trigger_id": trigger_id, "per_second": per_second, "burst": burst}
    row = connection.execute(_QUERIES["take"], arguments).fetchone()
    if row is None:  # cannot be: either way there is a row
        raise LookupError(f"the rate of trigger {trigger_id}")
    granted, held = row
    return 0 if granted else max(1, math.ceil((1 - held) / per_second))
