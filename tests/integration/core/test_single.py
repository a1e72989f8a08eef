from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.stack import LocalStack
from support.work_orders import accepted, keys, rejected
from workorders.core.database import Connection, connect
from workorders.core.single import Single, create_one
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def ids(connection: Connection, trigger: Trigger) -> list[object]:
    rows = connection.execute("SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", (trigger.id,))
    return [row[0] for row in rows]


def test_the_answer_names_the_work_order(connection: Connection, trigger: Trigger) -> None:
    first = create_one(connection, trigger, accepted(None, None))
    second = create_one(connection, trigger, rejected(None, None))
    assert [first.id, second.id] == ids(connection, trigger)
    assert [(first.state, first.created), (second.state, second.created)] == [("pending", True), ("rejected", True)]


def test_what_postgres_refuses_is_a_rejected_work_order_with_its_id(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted(None, None, rb'{"a":"\u0000"}'))
    assert [made.id] == ids(connection, trigger)
    assert (made.state, made.created, made.reason) == ("rejected", True, "refused-by-postgres")


@pytest.mark.parametrize("key", ["", "order-1", "x" * 100_000, "Zoë 🦉", "\udcff\0"])
def test_a_key_makes_one_work_order_however_long_it_is(connection: Connection, trigger: Trigger, key: str) -> None:
    first = create_one(connection, trigger, accepted("keys", None), key=key)
    again = create_one(connection, trigger, accepted("keys", None, b'{"b":2}'), key=key)
    assert first.created
    assert again == Single(first.id, "pending", created=False)
    assert len(ids(connection, trigger)) == 1


def test_a_position_that_was_there_is_found(connection: Connection, trigger: Trigger) -> None:
    first = create_one(connection, trigger, accepted("s", 7))
    assert create_one(connection, trigger, accepted("s", 7)) == Single(first.id, "pending", created=False)


def test_a_deleted_work_order_does_not_come_back(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted("keys", None), key="a")
    connection.execute("DELETE FROM workorders.dataclips WHERE id = %s", (made.id,))
    connection.execute("DELETE FROM workorders.work_orders WHERE id = %s", (made.id,))
    assert create_one(connection, trigger, accepted("keys", None), key="a") == Single(None, "deleted", created=False)
    assert keys(connection, trigger) == []


def test_two_callers_with_one_key_at_once_get_one_work_order(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    def create(_: int) -> Single:
        with connect(stack.database_url) as own:
            return create_one(own, trigger, accepted("keys", None), key="a")

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, range(8)))
    assert sum(single.created for single in made) == 1
    assert len({single.id for single in made}) == 1
