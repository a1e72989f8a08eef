import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.runs import finish_all
from support.work_orders import accepted, accepted_range, rejected
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.history import filters, search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

AT_ONCE = timedelta(0)


@pytest.fixture
def other_connection(stack: LocalStack) -> Iterator[Connection]:
    with connect(stack.database_url, application_name="test") as connection:
        yield connection


def body(text: str) -> bytes:
    return b'{"note":"%b"}' % text.encode()


def found(connection: Connection, **wanted: Any) -> list[int | None]:
    """Return the positions that a filter finds, newest first."""
    return [row.position for row in work_orders.list_work_orders(connection, Filter(**wanted), limit=3)]


def fill(connection: Connection) -> int:
    connection.commit()
    total = 0
    while added := search_index.index_new(connection, margin=AT_ONCE):
        total += added
    return total


def create(connection: Connection, trigger: Trigger, items: list[Item]) -> None:
    create_for(connection, trigger, items)
    fill(connection)


def test_words_are_found_in_body_request_and_rejection_newest_first(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create(
        connection,
        trigger,
        [
            accepted("s", 0, body("Zoë Müller was seen")),
            Item("s", 1, b'{"key":"PAT-0042"}', body("nothing")),
            rejected("s", 2, b'{"broken": "m\xc3\xbcller pat'),
            accepted("s", 3, body("müller again")),
        ],
    )
    assert found(connection, trigger=name, text="MÜLLER") == [3, 0]
    assert found(connection, trigger=name, text="müller zoë") == [0]
    assert found(connection, trigger=name, text="0042") == [1]
    assert found(connection, trigger=name, text="broken pat*") == [2]
    assert found(connection, trigger=name, text="rubbish") == [2]
    assert found(connection, trigger=name, text="absent") == []


def test_a_text_goes_with_every_other_filter(connection: Connection, trigger: Trigger, name: str) -> None:
    create(connection, trigger, [accepted("s", place, body("alike")) for place in range(3)])
    finish_all(connection, name, "failed")
    create(connection, trigger, [accepted("s", 3, body("alike")), accepted("s", 4, body("other"))])
    assert found(connection, text="alike", workflow=name, state="failed") == [2, 1, 0]
    assert found(connection, text="alike", trigger=name, state="pending") == [3]
    assert work_orders.count_by_state(connection, Filter(trigger=name, text="alike")) == {"failed": 3, "pending": 1}
    ids = work_orders.find_matching(connection, Filter(trigger=name, text="alike"), after=None, limit=2).ids
    rest = work_orders.find_matching(connection, Filter(trigger=name, text="alike"), after=ids[-1], limit=9).ids
    assert [len(ids), len(rest)] == [2, 2]
    assert ids + rest == sorted(ids + rest)


@pytest.mark.parametrize("newest", [1, 20_000], ids=["by the lists of the words", "among the newest"])
def test_the_pages_of_a_text_together_are_all_of_them_once(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    monkeypatch.setattr(filters, "_NEWEST", newest)
    monkeypatch.setattr(filters, "_MAX_IDS", 3)
    unlike = [accepted("s", place, body(f"{name} odd" if place % 2 else f"{name} even")) for place in range(14)]
    create(connection, trigger, unlike)
    places: list[int | None] = []
    before: UUID | None = None
    odd = Filter(text=f"{name} odd", workflow=name)
    for wanted in (odd, replace(odd, stream="s"), replace(odd, state="pending")):
        places, before = [], None
        while page := work_orders.list_work_orders(connection, wanted, before=before, limit=3):
            places += [row.position for row in page]
            before = page[-1].id
        assert places == [13, 11, 9, 7, 5, 3, 1]


@pytest.mark.parametrize("window", [1, 4, 100])
def test_the_steps_by_a_text_together_match_all_of_them_once(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(work_orders, "_WINDOW", window)
    create(connection, trigger, [accepted("s", place, body("odd" if place % 2 else "even")) for place in range(14)])
    places = {row.id: row.position for row in work_orders.list_work_orders(connection, Filter(trigger=name))}
    ids: list[UUID] = []
    step = work_orders.find_matching(connection, Filter(text="odd", trigger=name), after=None, limit=3)
    while step.looked_until is not None:
        assert len(step.ids) <= 3
        ids += step.ids
        step = work_orders.find_matching(connection, Filter(text="odd", trigger=name), after=step.looked_until, limit=3)
    assert [places[id_] for id_ in ids] == [1, 3, 5, 7, 9, 11, 13]


def test_a_body_beyond_every_limit_is_searched_at_its_beginning(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    words = " ".join(f"w{number}" for number in range(400_000))
    create(connection, trigger, [accepted("s", 0, body(f"first {words} last")), accepted("s", 1, body("x" * 5_000))])
    assert found(connection, trigger=name, text="first") == [0]
    assert found(connection, trigger=name, text="last") == []
    assert found(connection, trigger=name, text="x" * 5_000) == [1]


def test_nothing_is_passed_over_while_an_older_transaction_may_still_commit(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(other_connection, trigger, [accepted("one", 0, body("early"))])
    create_for(connection, trigger, [accepted("two", 1, body("late"))])
    fill(connection)
    assert found(connection, trigger=name, text="late") == []
    connection.rollback()
    other_connection.commit()
    fill(connection)
    assert found(connection, trigger=name, text="early") == [0]
    assert found(connection, trigger=name, text="late") == [1]


def test_a_second_look_finds_what_came_late_with_an_old_id(connection: Connection, trigger: Trigger, name: str) -> None:
    create(connection, trigger, [accepted("s", 0, body("on time"))])
    (row,) = work_orders.list_work_orders(connection, Filter(trigger=name))
    late = UUID(int=row.id.int - (60_000 << 80))
    create_for(connection, trigger, [accepted("s", 1, body("tardy"))])
    connection.execute(
        "UPDATE workorders.dataclips SET id = %s WHERE id = "
        "(SELECT id FROM workorders.work_orders WHERE trigger_id = %s AND position = 1)",
        (late, trigger.id),
    )
    connection.execute(
        "UPDATE workorders.work_orders SET id = %s WHERE trigger_id = %s AND position = 1", (late, trigger.id)
    )
    fill(connection)
    assert found(connection, trigger=name, text="tardy") == []
    connection.rollback()
    while search_index.index_late(connection, after=AT_ONCE):
        pass
    assert found(connection, trigger=name, text="tardy") == [1]
    assert found(connection, trigger=name, text="time") == [0]


@pytest.mark.parametrize("wanted", [{}, {"state": "pending"}, {"stream": "s"}], ids=["alone", "waiting", "of a stream"])
def test_the_pages_of_a_trigger_and_a_workflow_hold_all_however_far_the_looks_are(
    connection: Connection, trigger: Trigger, name: str, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "_NEWEST", 2)
    # A second one of the workflow, for numbers of triggers and workflows that differ.
    trigger = triggers.register(connection, name=f"{name}-too", type_="plain", workflow=trigger.workflow, definition={})
    create(connection, trigger, accepted_range("s", 0, 3))
    while search_index.index_late(connection, after=AT_ONCE):
        pass
    create(connection, trigger, accepted_range("s", 3, 5))
    create_for(connection, trigger, accepted_range("s", 5, 7))
    for whose in ({"trigger": trigger.name}, {"workflow": trigger.workflow}):
        places: list[int | None] = []
        before: UUID | None = None
        while page := work_orders.list_work_orders(connection, Filter(**{**whose, **wanted}), before=before, limit=2):
            places += [row.position for row in page]
            before = page[-1].id
        assert places == [6, 5, 4, 3, 2, 1, 0]


def test_two_that_fill_at_once_do_not_wait_for_one_another(
    connection: Connection, other_connection: Connection, trigger: Trigger
) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    connection.commit()
    with connection.transaction():
        connection.execute(
            "INSERT INTO workorders.history_marks (name, id) VALUES ('words', %s) ON CONFLICT DO NOTHING",
            (UUID(int=0),),
        )
    with connection.transaction():
        connection.execute("SELECT FROM workorders.history_marks WHERE name = 'words' FOR UPDATE")
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(search_index.index_new(other_connection, margin=AT_ONCE))
        )
        thread.start()
        thread.join(timeout=10)
        assert answers == [0]


def test_the_counts_at_hand_are_those_of_the_last_count(connection: Connection, trigger: Trigger, name: str) -> None:
    create_for(connection, trigger, [*accepted_range("s", 0, 3), rejected("s", 3)])
    connection.commit()
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert work_orders.refresh_counts(connection, even_if_recent=True)
    create_for(connection, trigger, [accepted("s", 4)])
    connection.commit()
    assert not work_orders.refresh_counts(connection)
    latest = work_orders.latest_counts(connection, workflow=name)
    assert latest.by_state == {"pending": 3, "rejected": 1}
    assert latest.counted_at is not None
    assert latest.counted_at > before
    assert work_orders.latest_counts(connection).by_state["rejected"] >= 1
