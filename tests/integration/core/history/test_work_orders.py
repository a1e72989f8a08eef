from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.work_orders import REQUEST, accepted, accepted_range, rejected
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import UnknownNameError
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.runs import runs_of
from workorders.core.history.work_orders import WorkOrder
from workorders.core.ids import first_id
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

MANY = 60_000


def places(connection: Connection, wanted: Filter, **page: Any) -> list[tuple[str | None, int | None]]:
    return [(found.stream, found.position) for found in work_orders.list_work_orders(connection, wanted, **page)]


def only_id(connection: Connection, trigger: Trigger) -> UUID:
    (found,) = work_orders.list_work_orders(connection, Filter(trigger=trigger.name))
    return found.id


def other(connection: Connection, name: str, workflow: str = "admit") -> Trigger:
    return triggers.register(connection, name=f"{name}-other", type_="kafka", workflow=workflow, definition={})


def test_work_orders_come_newest_first(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 3))
    create_for(connection, trigger, accepted_range("s", 3, 5))
    assert places(connection, Filter(trigger=trigger.name)) == [("s", place) for place in (4, 3, 2, 1, 0)]


def test_the_pages_together_are_all_work_orders_once(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 7))
    found: list[work_orders.WorkOrderSummary] = []
    for length in (3, 3, 1, 0):
        last = found[-1].id if found else None
        page = work_orders.list_work_orders(connection, Filter(trigger=trigger.name), before=last, limit=3)
        assert len(page) == length
        found += page
    assert [row.position for row in found] == [6, 5, 4, 3, 2, 1, 0]


def test_a_page_does_not_move_when_work_orders_are_created(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 4))
    first = work_orders.list_work_orders(connection, Filter(trigger=trigger.name), limit=2)
    create_for(connection, trigger, accepted_range("s", 4, 9))
    assert places(connection, Filter(trigger=trigger.name), before=first[-1].id, limit=2) == [("s", 1), ("s", 0)]


def test_a_trigger_shows_its_own_work_orders_only(connection: Connection, trigger: Trigger, name: str) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    create_for(connection, other(connection, name), [accepted("s", 1)])
    assert places(connection, Filter(trigger=trigger.name)) == [("s", 0)]


def test_a_workflow_shows_the_work_orders_of_all_its_triggers(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    second = other(connection, name, workflow=f"{name}-workflow")
    create_for(connection, trigger, [accepted("s", 0)])
    create_for(connection, second, [accepted("s", 1)])
    assert places(connection, Filter(workflow=f"{name}-workflow")) == [("s", 1)]


def test_a_state_shows_work_orders_in_that_state_only(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("s", 0), rejected("s", 1)])
    assert places(connection, Filter(trigger=trigger.name, state="rejected")) == [("s", 1)]
    assert places(connection, Filter(trigger=trigger.name, state="pending")) == [("s", 0)]


def test_a_reason_shows_work_orders_rejected_for_it_only(connection: Connection, trigger: Trigger) -> None:
    null = Item("s", 2, REQUEST, None, Rejection("null-value", "the value is null"), None)
    create_for(connection, trigger, [accepted("s", 0), rejected("s", 1), null])
    assert places(connection, Filter(trigger=trigger.name, rejection="null-value")) == [("s", 2)]


def test_a_stream_is_found_by_the_beginning_of_its_name(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("a/1@x", 0), accepted("a/10@x", 1), accepted("b/1@x", 2)])
    assert places(connection, Filter(trigger=trigger.name, stream="a/1@")) == [("a/1@x", 0)]
    assert places(connection, Filter(trigger=trigger.name, stream="a/")) == [("a/10@x", 1), ("a/1@x", 0)]
    assert places(connection, Filter(trigger=trigger.name, stream="c")) == []


def test_a_percent_sign_in_a_stream_is_no_wildcard(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("a%b", 0), accepted("axb", 1)])
    assert places(connection, Filter(trigger=trigger.name, stream="a%")) == [("a%b", 0)]


@pytest.mark.parametrize("is_listed", [False, True])
def test_an_ordering_key_is_found_whether_its_work_orders_are_listed_or_not(
    stack: LocalStack, connection: Connection, name: str, *, is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    executing = Executing(stack.database_url, name, ordering_key="body:/patient")
    executing.create([{"do": "echo", "patient": f"PAT-{number % 3}"} for number in range(12)], stream="s")
    executing.create([{"do": "echo", "patient": 1}, {"do": "echo", "patient": "1"}], stream="t")
    if is_listed:
        rows = connection.execute(
            "SELECT id FROM workorders.work_orders WHERE workflow_id = %s", [executing.workflow.id]
        )
        search_index.write_index(connection, [id_ for (id_,) in rows])
        monkeypatch.setattr(search_index, "complete_up_to", lambda _: UUID(int=2**128 - 1))
    wanted = Filter(trigger=name, ordering_key="PAT-1")
    assert places(connection, wanted) == [("s", place) for place in (10, 7, 4, 1)]
    page = work_orders.list_work_orders(connection, wanted, limit=3)
    assert places(connection, wanted, before=page[-1].id) == [("s", 1)]
    assert places(connection, Filter(trigger=name, ordering_key="1")) == [("t", 1), ("t", 0)]
    assert places(connection, Filter(workflow=name, ordering_key="PAT-9")) == []
    assert places(connection, Filter(workflow=name, ordering_key="PAT-1", state="pending", stream="t")) == []
    assert work_orders.count_by_state(connection, wanted) == {"pending": 4}
    assert len(work_orders.find_matching(connection, wanted, after=None, limit=3).ids) == 3


def test_work_orders_that_were_ticked_are_selected_and_no_others(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 5))
    ids = [found.id for found in work_orders.list_work_orders(connection, Filter(trigger=trigger.name))]
    wanted = Filter(selected=(ids[0], ids[3]))
    assert places(connection, wanted) == [("s", 4), ("s", 1)]
    assert work_orders.count_by_state(connection, wanted) == {"pending": 2}
    assert work_orders.find_matching(connection, wanted, after=None, limit=9).ids == [ids[3], ids[0]]


def test_those_that_ended_and_have_no_input_any_more_are_counted(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [*accepted_range("s", 0, 4), rejected("s", 4, b"x"), rejected("s", 5, None)])
    connection.execute(
        "UPDATE workorders.work_orders SET state = 'failed' WHERE trigger_id = %s AND position < 3", [trigger.id]
    )
    connection.execute(
        "UPDATE workorders.dataclips SET body = NULL FROM workorders.work_orders "
        "WHERE work_orders.id = dataclips.id AND trigger_id = %s AND position <> 1",
        [trigger.id],
    )
    connection.execute(
        "UPDATE workorders.rejections SET raw = NULL, request = '{}' FROM workorders.work_orders "
        "WHERE work_orders.id = work_order_id AND trigger_id = %s AND position = 5",
        [trigger.id],
    )
    assert work_orders.count_without_input(connection, Filter(trigger=trigger.name)) == 3
    assert work_orders.count_without_input(connection, Filter(trigger=trigger.name, state="failed")) == 2


def test_positions_are_half_open(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 6))
    wanted = Filter(trigger=trigger.name, stream="s", from_position=2, to_position=4)
    assert places(connection, wanted) == [("s", 3), ("s", 2)]


def test_since_is_inclusive_and_until_is_not(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    (row,) = work_orders.list_work_orders(connection, Filter(trigger=trigger.name))
    moment, step = row.created_at, timedelta(microseconds=1)
    found = Filter(trigger=trigger.name, since=moment, until=moment + step)
    assert places(connection, found) == [("s", 0)]
    assert places(connection, Filter(trigger=trigger.name, since=moment + step)) == []
    assert places(connection, Filter(trigger=trigger.name, until=moment)) == []


@pytest.mark.parametrize("apart", [timedelta(minutes=-50), timedelta(minutes=50)])
def test_a_work_order_is_found_at_the_databases_time_whatever_its_makers_clock_showed(
    connection: Connection, trigger: Trigger, apart: timedelta
) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    # What a maker with a wrong clock leaves behind: an id of another time than created_at.
    connection.execute(
        "UPDATE workorders.work_orders SET created_at = created_at + %s WHERE trigger_id = %s", (apart, trigger.id)
    )
    (row,) = work_orders.list_work_orders(connection, Filter(trigger=trigger.name))
    around = Filter(
        trigger=trigger.name, since=row.created_at - timedelta(seconds=1), until=row.created_at + timedelta(seconds=1)
    )
    assert places(connection, around) == [("s", 0)]
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name, since=around.since)) == {"pending": 1}


def test_a_work_order_without_source_key_is_listed(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted(None, None)])
    assert places(connection, Filter(trigger=trigger.name)) == [(None, None)]


def test_an_unknown_trigger_or_workflow_is_reported(connection: Connection, name: str) -> None:
    with pytest.raises(UnknownNameError, match=name):
        work_orders.list_work_orders(connection, Filter(trigger=name))
    with pytest.raises(UnknownNameError, match=name):
        work_orders.list_work_orders(connection, Filter(workflow=name))


def test_states_are_counted(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [*accepted_range("s", 0, 3), rejected("s", 3)])
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name)) == {"pending": 3, "rejected": 1}
    later = datetime.now(UTC) + timedelta(hours=2)
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name, since=later)) == {}


def test_an_input_keeps_every_digit(connection: Connection, trigger: Trigger) -> None:
    number = b"0.1000000000000000000000000000001"
    create_for(connection, trigger, [accepted("s", 7, b'{"a":' + number + b"}")])
    found = work_orders.get_work_order(connection, only_id(connection, trigger))
    assert (found.trigger, found.trigger_type, found.workflow, found.state) == (
        trigger.name,
        trigger.type,
        trigger.workflow,
        "pending",
    )
    assert (found.stream, found.position, found.reason, found.raw) == ("s", 7, None, None)
    assert found.body is not None
    assert number.decode() in found.body
    assert found.request == '{\n    "from": "a test"\n}'


@pytest.mark.parametrize("raw", [b"\xff\0rubbish", b"", None])
def test_a_rejection_shows_its_reason_and_its_raw_bytes(
    connection: Connection, trigger: Trigger, raw: bytes | None
) -> None:
    create_for(connection, trigger, [rejected("s", 7, raw)])
    found = work_orders.get_work_order(connection, only_id(connection, trigger))
    assert (found.state, found.reason, found.detail) == ("rejected", "not-json", "rubbish at character 1")
    assert (found.body, found.raw) == (None, raw)
    assert found.request == '{\n    "from": "a test"\n}'


def test_an_excerpt_has_the_beginning_of_what_is_long_and_its_length(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("s", 7, '{"a":"ééé"}'.encode()), rejected("s", 8, b"\xff\0rubbish")])
    second, first = work_orders.list_work_orders(connection, Filter(trigger=trigger.name))
    found, whole = excerpt(connection, first.id), work_orders.get_work_order(connection, first.id)
    assert whole.body == '{\n    "a": "ééé"\n}'
    assert (found.body, found.body_bytes) == (whole.body[:14], 21)
    assert (found.request, found.request_bytes) == ('{\n    "from": ', 24)
    assert (found.raw, found.raw_bytes) == (None, None)
    assert (found.state, found.stream, found.position) == (whole.state, whole.stream, whole.position)
    found = excerpt(connection, second.id)
    assert (found.body, found.body_bytes, found.reason) == (None, None, "not-json")
    assert (found.raw, found.raw_bytes) == (b"\xff\0ru", 9)


def excerpt(connection: Connection, id_: UUID) -> WorkOrder:
    return work_orders.get_work_order(connection, id_, max_characters=14, max_bytes=4)


def test_an_unknown_work_order_is_reported(connection: Connection) -> None:
    id_ = uuid4()
    with pytest.raises(UnknownNameError, match=str(id_)):
        work_orders.get_work_order(connection, id_)


def test_runs_come_in_the_order_of_their_attempts(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    id_ = only_id(connection, trigger)
    assert runs_of(connection, id_) == []
    for attempt, state in ((2, "available"), (1, "failed")):
        connection.execute(
            "INSERT INTO workorders.runs (id, work_order_id, workflow_id, attempt, state) VALUES (%s, %s, %s, %s, %s)",
            (uuid4(), id_, trigger.workflow_id, attempt, state),
        )
    assert [(run.attempt, run.state) for run in runs_of(connection, id_)] == [
        (1, "failed"),
        (2, "available"),
    ]


@pytest.fixture(scope="module")
def many(stack: LocalStack) -> Trigger:
    """Enough work orders that Postgres would sort them if it had to, among them a few rejected ones."""
    with connect(stack.database_url) as connection:
        # What other modules left decides the planner's statistics otherwise.
        connection.execute("TRUNCATE workorders.work_orders, workorders.rejections, workorders.dataclips CASCADE")
        name = f"test-{uuid4().hex[:12]}"
        trigger = triggers.register(connection, name=name, type_="kafka", workflow="admit", definition={})
        items = (rejected("s", place) if place % 10_000 == 0 else accepted("s", place) for place in range(MANY))
        create_for(connection, trigger, items, fresh=True)
        connection.commit()
    with psycopg.connect(stack.database_url, autocommit=True) as autocommit:
        for table in ("work_orders", "rejections", "dataclips"):
            autocommit.execute(f"VACUUM ANALYZE workorders.{table}")
    return trigger


NO_FILTER: dict[str, Any] = dict.fromkeys(
    (
        *("trigger_id", "workflow_id", "stream_ids", "state", "rejection", "since", "until", "first_id", "end_id"),
        "ordering_keys",
        *("from_position", "to_position", "before_id", "after_id", "selected"),
    )
)


def rows_read(connection: Connection, **arguments: Any) -> tuple[int, str]:
    """Return how many rows of work orders and rejections Postgres touched for a page of 20, and the plan."""
    queries = load_queries("workorders.core.history", "sql/paging.sql", blocks_from="sql/filters.sql")
    rows = connection.execute(
        "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) " + queries["newest_ids"],
        {**NO_FILTER, "limit": 20, **arguments},
        prepare=False,
    ).fetchone()
    assert rows is not None
    nodes = list(walk(rows[0][0]["Plan"]))
    big = [node for node in nodes if node.get("Relation Name") in {"work_orders", "rejections"}]
    touched = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in big)
    return touched, str(rows[0][0])


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def test_a_page_reads_no_more_than_a_page(connection: Connection, many: Trigger) -> None:
    page = work_orders.list_work_orders(connection, Filter(trigger=many.name), limit=20)
    middle = work_orders.list_work_orders(
        connection, Filter(trigger=many.name, stream="s", to_position=MANY // 2), limit=1
    )
    stream_ids = connection.execute("SELECT id FROM workorders.source_streams WHERE trigger_id = %s", (many.id,))
    now = datetime.now(UTC)
    for arguments in (
        {},
        {"trigger_id": many.id},
        {"before_id": page[-1].id},
        {"before_id": middle[0].id},
        {"state": "pending"},
        {"since": now - timedelta(days=1), "first_id": first_id(now - timedelta(days=1, hours=1))},
        {"stream_ids": [row[0] for row in stream_ids], "from_position": 100, "to_position": 120},
    ):
        touched, plan = rows_read(connection, **arguments)
        assert touched < 500, (arguments, plan)


def test_rejected_work_orders_are_found_from_the_few_rejections(connection: Connection, many: Trigger) -> None:
    for arguments in ({"state": "rejected"}, {"rejection": "not-json"}):
        touched, plan = rows_read(connection, trigger_id=many.id, **arguments)
        assert touched < MANY / 10, (arguments, plan)
