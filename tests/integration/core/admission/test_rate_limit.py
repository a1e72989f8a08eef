"""A bucket a trigger, whoever takes from it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.stack import LocalStack
from workorders.core.admission import rate_limit
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def pass_time(connection: Connection, trigger: Trigger, seconds: float) -> None:
    connection.execute(
        "UPDATE workorders.trigger_rates SET filled_at = filled_at - make_interval(secs => %s) WHERE trigger_id = %s",
        (seconds, trigger.id),
    )


def test_a_burst_passes_then_as_many_as_time_lets(connection: Connection, trigger: Trigger) -> None:
    # One in a thousand seconds, and what is told is compared roughly: time goes on while this asks.
    def take() -> float:
        return rate_limit.acquire_token(connection, trigger.id, 0.001, 3)

    assert [take() for _ in range(4)] == [0, 0, 0, pytest.approx(1000, abs=60)]
    pass_time(connection, trigger, 400)
    assert take() == pytest.approx(600, abs=60)
    pass_time(connection, trigger, 600)
    assert [take() for _ in range(2)] == [0, pytest.approx(1000, abs=60)]
    pass_time(connection, trigger, 100_000)
    assert [take() for _ in range(4)] == [0, 0, 0, pytest.approx(1000, abs=60)]


def test_a_clock_that_was_set_back_takes_nothing_out(connection: Connection, trigger: Trigger) -> None:
    assert rate_limit.acquire_token(connection, trigger.id, 0.001, 3) == 0
    pass_time(connection, trigger, -3600)
    taken = [rate_limit.acquire_token(connection, trigger.id, 0.001, 3) for _ in range(3)]
    assert taken == [0, 0, pytest.approx(1000, abs=60)]


def test_of_many_at_once_as_many_pass_as_there_is_room_for(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    connection.commit()

    def run(_: int) -> int:
        with connect(stack.database_url, autocommit=True) as own:
            return sum(rate_limit.acquire_token(own, trigger.id, 0.001, 20) == 0 for _ in range(10))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(run, range(8))) == 20


def test_two_triggers_have_buckets_of_their_own(connection: Connection, trigger: Trigger) -> None:
    assert rate_limit.acquire_token(connection, trigger.id, 0.1, 1) == 0
    assert rate_limit.acquire_token(connection, trigger.id, 0.1, 1) > 0
    assert rate_limit.acquire_token(connection, -1, 0.1, 1) == 0
