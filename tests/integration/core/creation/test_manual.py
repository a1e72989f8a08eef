from uuid import UUID

import pytest

from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import CreateResult
from workorders.core.creation.manual import ManualRequest, NotAnInputError, create
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def wish(body: bytes = b'{"a":1}', key: str | None = None) -> ManualRequest:
    return ManualRequest(body, Attribution("ada", "a test"), key)


def test_it_records_the_actor_and_the_reason(connection: Connection, trigger: Trigger) -> None:
    made = create(connection, trigger, wish(key="k"))
    request = work_orders.get_work_order(connection, made.id or UUID(int=0)).request
    assert request is not None
    for part in ('"actor": "ada"', '"reason": "a test"', '"key": "k"'):
        assert part in request


def test_the_same_key_creates_nothing_twice_and_no_key_is_an_event_of_its_own(
    connection: Connection, trigger: Trigger
) -> None:
    first = create(connection, trigger, wish(key="k"))
    assert create(connection, trigger, wish(key="k")) == CreateResult(first.id, "pending", created=False)
    assert create(connection, trigger, wish()).id != create(connection, trigger, wish()).id


@pytest.mark.parametrize("body", [b"", b"[]", b"{", rb'{"a":"\u0000"}', b'{"a":1e-9999}'])
def test_what_is_no_input_is_refused_and_creates_nothing(connection: Connection, trigger: Trigger, body: bytes) -> None:
    with pytest.raises(NotAnInputError, match=r"must be a JSON object, and .*; nothing was created\."):
        create(connection, trigger, wish(body))
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name)) == {}
