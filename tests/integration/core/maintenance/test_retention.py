import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from local_stack.stack import LocalStack
from support.databases import own_database
from support.eventually import eventually
from support.finished_steps import add_step
from support.runs import finish_all, keeping
from support.work_orders import accepted, accepted_range, age, positions, rejected
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.creation.work_orders import create_for
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.maintenance import retention
from workorders.core.maintenance.retention import RetentionBusyError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

QUERIES = load_queries("workorders.core.maintenance", "sql/retention.sql")
WAITING = "SELECT pid FROM pg_locks WHERE NOT granted AND pid = %s"


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """A separate database, because retention reads all work orders, step by step."""
    return own_database(stack, "retention")


@pytest.fixture
def other_connection(database_url: str) -> Iterator[Connection]:
    with connect(database_url, application_name="test") as connection:
        yield connection


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def keep(connection: Connection, *, days: float, step: int = 2) -> None:
    """Run retention as it will be that many days from now; between two of its steps, no transaction is open."""
    connection.commit()
    pauses: list[TransactionStatus] = []
    retention.delete_expired(
        connection,
        now=in_days(days),
        step=step,
        pause=lambda _: pauses.append(connection.info.transaction_status),
    )
    assert set(pauses) == {TransactionStatus.IDLE}


def rows(connection: Connection, query: str, *arguments: Any) -> list[Any]:
    return [row[0] for row in connection.execute(query, arguments).fetchall()]


def test_what_ended_well_goes_first_and_errors_are_kept_longer(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="10d", delete_errors_after="20d")
    create_for(connection, trigger, accepted_range("s", 0, 3))
    finish_all(connection, name, "success")
    create_for(connection, trigger, [*accepted_range("s", 3, 5), rejected("s", 5)])
    finish_all(connection, name, "failed")
    create_for(connection, trigger, [accepted("s", 6)])
    keep(connection, days=9)
    assert positions(connection, trigger, "s") == list(range(7))
    keep(connection, days=11)
    assert positions(connection, trigger, "s") == [3, 4, 5, 6]
    keep(connection, days=21)
    # Who still waits is never deleted.
    assert positions(connection, trigger, "s") == [6]


@pytest.mark.parametrize(
    ("policy", "good", "errors"),
    [
        ({"delete_after": "30d", "delete_errors_after": "90d"}, 30, 90),
        ({"delete_after": "30d"}, 30, 30),
        ({"delete_after": "30d", "delete_errors_after": "7d"}, 30, 30),
        ({"delete_errors_after": "7d"}, None, 7),
        ({"erase_after": "7d"}, None, None),
    ],
    ids=str,
)
def test_errors_are_kept_at_least_as_long_as_the_rest(
    connection: Connection, trigger: Trigger, policy: dict[str, str], good: int | None, errors: int | None
) -> None:
    keeping(connection, trigger.workflow, **policy)
    create_for(connection, trigger, [accepted("s", 0)])
    finish_all(connection, trigger.workflow, "success")
    create_for(connection, trigger, [accepted("s", 1)])
    finish_all(connection, trigger.workflow, "failed")
    for days in (6, 8, 29, 31, 89, 91):
        kept = [number for number, before in enumerate((good, errors)) if before is None or days < before]
        keep(connection, days=days)
        assert set(positions(connection, trigger, "s")) == set(kept), days


def test_a_workflow_without_retention_keeps_everything(connection: Connection, trigger: Trigger, name: str) -> None:
    create_for(connection, trigger, [accepted("s", 0), rejected("s", 1)])
    finish_all(connection, name)
    keep(connection, days=10_000)
    assert positions(connection, trigger, "s") == [0, 1]


def test_everything_of_a_work_order_goes_with_it(connection: Connection, trigger: Trigger, name: str) -> None:
    keeping(connection, name, delete_after="10d")
    create_for(connection, trigger, [accepted("s", 0), rejected("s", 1)])
    (run,) = finish_all(connection, name)
    add_step(connection, run.run_id, "label")
    ids = [row.id for row in work_orders.list_work_orders(connection, Filter(trigger=name))]
    search_index.write_index(connection, ids)
    keep(connection, days=11)
    for table, column in (
        ("work_orders", "id"),
        ("dataclips", "id"),
        ("rejections", "work_order_id"),
        ("search_words", "id"),
        ("runs", "work_order_id"),
        ("steps", "work_order_id"),
    ):
        left = rows(connection, f"SELECT count(*) FROM workorders.{table} WHERE {column} = ANY (%s)", ids)
        assert left == [0], table
    assert rows(connection, "SELECT count(*) FROM workorders.run_results WHERE run_id = %s", run.run_id) == [0]


def test_wiping_leaves_the_work_order_and_nothing_of_its_input(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, erase_after="5d")
    create_for(connection, trigger, [accepted("s", 0), rejected("s", 1), accepted("s", 2)])
    (run, _) = finish_all(connection, name)
    add_step(connection, run.run_id, "label")
    create_for(connection, trigger, [accepted("s", 3)])
    ids = [row.id for row in work_orders.list_work_orders(connection, Filter(trigger=name))]
    search_index.write_index(connection, ids)
    keep(connection, days=6, step=1)
    waiting, *ended = (work_orders.get_work_order(connection, id_) for id_ in ids)
    assert waiting.body is not None
    assert [(found.position, found.body, found.raw, found.request) for found in ended] == [
        (2, None, None, "{\n}"),
        (1, None, None, "{\n}"),
        (0, None, None, "{\n}"),
    ]
    assert ended[1].reason == "not-json"
    for table in ("run_results", "steps"):
        assert rows(connection, f"SELECT count(*) FROM workorders.{table} WHERE run_id = %s", run.run_id) == [0]
    assert rows(connection, "SELECT id FROM workorders.search_words WHERE id = ANY (%s) AND words <> ''", ids) == [
        waiting.id
    ]


def bodies(connection: Connection, trigger: Trigger) -> int:
    """Return how many work orders of a trigger have an input."""
    query = """
        SELECT count(dataclips.body) FROM workorders.work_orders JOIN workorders.dataclips USING (id)
        WHERE trigger_id = %s
    """
    return int(rows(connection, query, trigger.id)[0])


@pytest.mark.parametrize("days", [11, 21], ids=["wiped", "deleted"])
def test_words_of_an_input_that_is_erased_while_they_are_written_do_not_stay(
    connection: Connection,
    other_connection: Connection,
    trigger: Trigger,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
) -> None:
    keeping(connection, trigger.workflow, delete_after="20d", erase_after="10d")
    create_for(connection, trigger, [accepted("s", 0, b'{"patient": "grandmother"}')])
    finish_all(connection, trigger.workflow)
    (row,) = work_orders.list_work_orders(connection, Filter(trigger=trigger.name))
    connection.commit()
    to_literal, pid = search_index.to_tsvector_literal, other_connection.info.backend_pid
    retention_now = threading.Thread(target=keep, args=(other_connection,), kwargs={"days": days})

    def read_while_retention_begins(*texts: Any) -> str:
        retention_now.start()
        eventually(
            lambda: not retention_now.is_alive() or rows(connection, WAITING, pid),
            seconds=30,
            what="the end of retention, or its waiting for a lock",
        )
        return to_literal(*texts)

    monkeypatch.setattr(search_index, "to_tsvector_literal", read_while_retention_begins)
    with connection.transaction():
        search_index.write_index(connection, [row.id])
    retention_now.join()
    assert rows(connection, "SELECT id FROM workorders.search_words WHERE id = %s AND words <> ''", row.id) == []
    assert positions(connection, trigger, "s") == ([0] if days < 20 else [])
    assert rows(connection, "SELECT id FROM workorders.search_words WHERE id = %s", row.id) == (
        [row.id] if days < 20 else []
    )


def test_words_are_not_written_before_a_step_of_retention_has_ended(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(connection, trigger, [accepted("s", 0, b'{"patient": "grandmother"}')])
    (row,) = work_orders.list_work_orders(connection, Filter(trigger=name))
    connection.commit()
    other_connection.execute("SET lock_timeout = '50ms'")
    with connection.transaction():
        search_index.lock_words(connection)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            search_index.write_index(other_connection, [row.id])


def test_what_has_not_ended_when_its_turn_comes_is_wiped_once_it_has(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, erase_after="5d")
    create_for(connection, trigger, accepted_range("s", 0, 5))
    age(connection, trigger, 10)
    keep(connection, days=0)
    assert bodies(connection, trigger) == 5
    finish_all(connection, name)
    keep(connection, days=0)
    assert bodies(connection, trigger) == 0


def test_what_is_in_use_when_its_turn_comes_is_wiped_the_next_time(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, erase_after="5d")
    create_for(connection, trigger, accepted_range("s", 0, 5))
    ids = age(connection, trigger, 10)
    finish_all(connection, name)
    connection.commit()
    other_connection.execute("SELECT FROM workorders.work_orders WHERE id = %s FOR UPDATE", (ids[2],))
    keep(connection, days=0)
    assert bodies(connection, trigger) == 1
    other_connection.rollback()
    keep(connection, days=0)
    assert bodies(connection, trigger) == 0


def test_what_is_due_behind_many_that_are_kept_is_deleted(connection: Connection, trigger: Trigger, name: str) -> None:
    kept = triggers.register(connection, name=f"{name}-2", type_="plain", workflow=f"{name}-2", definition={})
    create_for(connection, kept, accepted_range("s", 0, 100))
    finish_all(connection, f"{name}-2")
    keeping(connection, name, delete_after="10d")
    create_for(connection, trigger, accepted_range("s", 0, 5))
    finish_all(connection, name)
    keep(connection, days=11)
    assert positions(connection, trigger, "s") == []
    assert len(positions(connection, kept, "s")) == 100


def test_wiping_takes_the_text_of_an_error_and_leaves_its_type(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, erase_after="1d")
    create_for(connection, trigger, [accepted("s", 0)])
    (run,) = finish_all(connection, name, "failed")
    connection.execute(
        "UPDATE workorders.runs SET error_type = 'KeyError', error = 'no ward for Jane Doe' WHERE id = %s",
        (run.run_id,),
    )
    errors = "SELECT error_type || ': ' || coalesce(error, 'erased') FROM workorders.runs WHERE id = %s"
    keep(connection, days=0.5)
    assert rows(connection, errors, run.run_id) == ["KeyError: no ward for Jane Doe"]
    keep(connection, days=1.5)
    assert rows(connection, errors, run.run_id) == ["KeyError: erased"]


@pytest.mark.parametrize("policy", [{"erase_after": "1d"}, {"delete_after": "1d"}], ids=str)
def test_the_name_of_an_idle_sequence_is_erased_and_its_mark_stays(
    connection: Connection, name: str, policy: dict[str, str]
) -> None:
    fields = {"sequence": {"key": "body:/patient", "number": "body:/number", "start": 0}}
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition=fields)
    keeping(connection, name, **policy)

    def send(patient: str, number: int, position: int) -> None:
        body = f'{{"patient":"{patient}","number":{number}}}'.encode()
        create_for(connection, trigger, [accepted("s", position, body=body)])

    for position, patient in enumerate(("Jane Doe", "John Doe", "Jim Doe")):
        send(patient, 0, position)
    send("John Doe", 2, 3)  # parked: an operator may have to find it
    finish_all(connection, name)
    kept = "SELECT name FROM workorders.sequences WHERE trigger_id = %s ORDER BY name"
    keep(connection, days=0.5, step=1)
    assert rows(connection, kept, trigger.id) == ['"Jane Doe"', '"Jim Doe"', '"John Doe"']
    keep(connection, days=1.5, step=1)
    assert rows(connection, kept, trigger.id) == ["", "", '"John Doe"']
    # Known by its digest, so that a number that comes again is still a repeat.
    send("Jane Doe", 0, 4)
    (again,) = work_orders.list_work_orders(connection, Filter(trigger=name, stream="s", from_position=4))
    assert again.state == "rejected"


def test_a_sequence_that_is_in_use_keeps_its_name(connection: Connection, name: str) -> None:
    fields = {"sequence": {"key": "body:/patient", "number": "body:/number", "start": 0}}
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition=fields)
    keeping(connection, name, erase_after="1d")
    for number in range(2):
        body = f'{{"patient":"Jane Doe","number":{number}}}'.encode()
        create_for(connection, trigger, [accepted("s", number, body=body)])
        connection.execute(
            "UPDATE workorders.sequences SET used_at = used_at - interval '2 days' WHERE trigger_id = %s AND %s = 0",
            (trigger.id, number),
        )
    keep(connection, days=0)
    assert rows(connection, "SELECT name FROM workorders.sequences WHERE trigger_id = %s", trigger.id) == ['"Jane Doe"']


@pytest.mark.parametrize(
    ("state", "afterwards"), [("finished", "finished"), ("cancelled", "cancelled"), ("failed", "cancelled")]
)
@pytest.mark.parametrize("field", ["text", "ordering_key"])
def test_the_words_that_an_ended_job_looked_for_are_erased_and_it_never_continues(
    connection: Connection, trigger: Trigger, name: str, *, field: str, state: str, afterwards: str
) -> None:
    keeping(connection, name, erase_after="1d")
    wanted = Filter.from_json({"workflow": name, field: "Jane Doe"})
    ended, waiting = (jobs.create_job(connection, "rerun", wanted, Attribution("ada", "a test")) for _ in range(2))
    connection.execute(
        "UPDATE workorders.bulk_jobs SET state = %s, error = %s WHERE id = %s",
        (state, "x" if state == "failed" else None, ended.id),
    )
    keep(connection, days=0.5)
    assert jobs.get_job(connection, ended.id).filter == ended.filter
    keep(connection, days=1.5)
    found = jobs.get_job(connection, ended.id)
    assert found.filter.to_json() == ended.filter.to_json() | {field: "(erased)"}
    assert found.state == afterwards
    assert jobs.get_job(connection, waiting.id).filter == waiting.filter
    jobs.cancel_job(connection, waiting.id)
    connection.commit()


def test_retention_does_not_wait_for_what_others_hold(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="10d")
    create_for(connection, trigger, accepted_range("s", 0, 3))
    finish_all(connection, name)
    other_connection.execute(
        "SELECT FROM workorders.work_orders WHERE trigger_id = %s AND position = 1 FOR UPDATE", (trigger.id,)
    )
    keep(connection, days=11)
    assert positions(connection, trigger, "s") == [1]


def test_a_request_with_a_key_waits_for_no_step_of_retention(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    old = create_one(connection, trigger, accepted(None, None), key="old")
    finish_all(connection, name)
    connection.commit()
    with connection.transaction():
        connection.execute(QUERIES["delete"], {"ids": numbered(connection, trigger)})
        other_connection.execute("SET LOCAL lock_timeout = '100ms'")
        made = create_one(other_connection, trigger, accepted(None, None), key="new")
        assert made.created
        # Who asks for the key of what is being deleted learns how it was before.
        again = create_one(other_connection, trigger, accepted(None, None), key="old")
        assert again == CreateResult(old.id, "success", created=False)
    other_connection.commit()
    assert create_one(connection, trigger, accepted(None, None), key="old").state == "deleted"
    assert create_one(connection, trigger, accepted(None, None), key="new").id == made.id


def test_a_key_alone_keeps_a_deleted_event_from_coming_back(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="10d")
    for key in "abc":
        create_one(connection, trigger, accepted(None, None), key=key)
    finish_all(connection, name)
    keep(connection, days=11)
    assert numbered(connection, trigger) == []
    assert create_one(connection, trigger, accepted(None, None), key="b").state == "deleted"


def test_open_requests_with_keys_hold_no_retention_up(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="10d")
    create_one(connection, trigger, accepted(None, None), key="old")
    finish_all(connection, name)
    create_one(other_connection, trigger, accepted(None, None), key="new")
    create_one(other_connection, trigger, accepted(None, None), key="old")
    keep(connection, days=11)
    assert numbered(connection, trigger) == []
    other_connection.commit()
    assert len(numbered(connection, trigger)) == 1


def numbered(connection: Connection, trigger: Trigger) -> list[UUID]:
    return rows(connection, "SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", trigger.id)


def test_two_runs_of_retention_do_not_work_at_once(connection: Connection, other_connection: Connection) -> None:
    other_connection.execute("SELECT pg_advisory_xact_lock(%s)", (AdvisoryLock.RETENTION,))
    with pytest.raises(RetentionBusyError, match="Another process runs retention"):
        retention.delete_expired(connection)


@pytest.mark.parametrize(
    ("ended", "stepped", "is_due"),
    [(None, None, True), ("23 hours", "1 day", False), ("25 hours", "1 day", True), ("25 hours", "5 minutes", False)],
)
def test_retention_is_due_a_day_after_its_end_unless_a_process_runs_it(
    connection: Connection, ended: str | None, stepped: str | None, *, is_due: bool
) -> None:
    connection.execute("DELETE FROM workorders.history_marks")
    for mark, ago in (("retention", ended), ("retention_step", stepped)):
        if ago is not None:
            connection.execute(
                "INSERT INTO workorders.history_marks VALUES (%s, %s, now() - %s::interval)", (mark, UUID(int=0), ago)
            )
    assert retention.is_due(connection) is is_due


def test_others_see_that_a_process_runs_retention(connection: Connection, other_connection: Connection) -> None:
    connection.execute("DELETE FROM workorders.history_marks")
    connection.commit()
    due: list[bool] = []

    def look(_: float) -> None:
        with other_connection.transaction():
            due.append(retention.is_due(other_connection))

    retention.delete_expired(connection, pause=look)
    assert set(due) == {False}
