"""One input that cannot be read affects nothing else: neither a claim nor a rule, neither search nor export."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.runs import finish_all, keeping
from support.unreadable import BEYOND_POSTGRES, BEYOND_WORKERS, create_unreadable
from support.work_orders import accepted, positions
from support.working import Working
from support.working import positions as positions_of
from workorders.core import triggers
from workorders.core.admission.pipeline import reject_written
from workorders.core.admission.rules import AdmissionRejection
from workorders.core.attribution import Attribution
from workorders.core.bulk.runner import rerun_work_orders
from workorders.core.creation.work_orders import create_for
from workorders.core.history import runs, search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.items import Rejection
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

PLACEHOLDER = "unreadable: Postgres cannot write this JSON out, because it is too long as text"


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a claim be full with the third of the bodies of 30 bytes."""
    monkeypatch.setattr(claiming, "MAX_BYTES", 120)


def body_of(number: int) -> bytes:
    return b'{"pad": "xxxxxx", "number": %2d}' % (number + 10)


def ids(connection: Connection, trigger: Trigger) -> list[UUID]:
    rows = connection.execute("SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", (trigger.id,))
    return [row[0] for row in rows]


def test_an_input_that_cannot_be_read_is_an_exception_of_its_run_alone(
    stack: LocalStack, connection: Connection, name: str
) -> None:
    executing = Executing(stack.database_url, name, "echo", retries={"max_retries": 3})
    trigger = triggers.find(connection, name)
    executing.create([{"place": "before"}], stream="first")
    create_unreadable(connection, trigger, 1)
    executing.create([{"place": "after"}], stream="last")
    executing.worker().work()
    rows = executing.rows(
        """
        SELECT work_orders.state::text, runs.state::text, error_type, error
        FROM workorders.runs JOIN workorders.work_orders ON work_orders.id = work_order_id
        WHERE runs.workflow_id = %(workflow_id)s ORDER BY work_order_id
        """
    )
    assert [row[:3] for row in rows] == [
        ("success", "success", None),
        ("exception", "exception", "InputUnreadableError"),
        ("success", "success", None),
    ]
    assert "the run was not begun" in rows[1][3]


@pytest.mark.parametrize(
    "fields", [{}, {"concurrency": 50}, {"ordering_key": "key"}], ids=["open", "concurrency", "ordering_keys"]
)
def test_what_is_behind_an_unreadable_input_waits_for_the_next_claim(
    connection: Connection, name: str, fields: dict[str, object]
) -> None:
    working = Working.on(connection, name, **fields)
    working.create_some(1)
    create_unreadable(connection, working.trigger, 1, BEYOND_WORKERS)
    working.create_some(1, start=2)
    first = working.claim_as_worker()
    assert [(run.position, run.body is None, run.is_unreadable) for run in first.claimed] == [
        (0, False, False),
        (1, True, True),
    ]
    assert working.states() == ["running", "running", "requeued"]
    first.start()
    first.finish("success", "exception")
    assert positions_of(working.claim()) == [2]


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize(
    "fields", [{}, {"concurrency": 50}, {"ordering_key": "key"}], ids=["open", "concurrency", "ordering_keys"]
)
def test_a_claim_is_full_when_its_inputs_are_many_bytes(
    connection: Connection, name: str, fields: dict[str, object]
) -> None:
    working = Working.on(connection, name, **fields)
    working.create(accepted("s", number, body_of(number)) for number in range(7))
    seen: list[ClaimedRun] = []
    for _ in range(3):
        worker = working.claim_as_worker()
        assert sum(len(run.body or b"") + len(run.request) for run in worker.claimed) < 2 * 120
        seen += worker.claimed
        worker.start()
        worker.succeed()
    assert positions_of(seen) == list(range(7))
    assert [run.body for run in seen] == [body_of(number) for number in range(7)]
    assert working.states() == ["success"] * 7


@pytest.mark.usefixtures("few_bytes")
def test_what_a_group_finds_again_is_bounded_and_what_it_has_in_hand_stays_its_own(
    connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = Working.on(connection, name)
    working.create(accepted("s", number, body_of(number)) for number in range(7))
    worker_id = uuid4()
    with monkeypatch.context() as patched:
        patched.setattr(claiming, "MAX_BYTES", 10_000)
        owned = working.claim(7, worker_id)
    in_hand = {run.run_id for run in owned[5:]}
    found = claiming.claimed(connection, working.workflow, worker_id, but=in_hand)
    connection.commit()
    assert positions_of(found) == [0, 1, 2]
    assert working.states() == ["running"] * 3 + ["requeued"] * 2 + ["running"] * 2
    assert positions_of(working.claim()) == [3, 4]


def test_a_rule_rejects_what_cannot_be_read_together_with_the_others(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    unreadable = create_unreadable(connection, trigger, 1)
    create_for(connection, trigger, [accepted("s", 2)])
    refused = [AdmissionRejection(id_.bytes, "duplicate", "duplicate of one") for id_ in ids(connection, trigger)]
    reject_written(connection, refused)
    connection.commit()
    found = [work_orders.get_work_order(connection, id_) for id_ in ids(connection, trigger)]
    assert [(one.state, one.reason, one.raw) for one in found] == [
        ("rejected", "duplicate", b'{"a": 1}'),
        ("rejected", "duplicate", None),
        ("rejected", "duplicate", b'{"a": 1}'),
    ]
    assert found[1].id == unreadable
    assert [one.detail for one in found] == [
        "duplicate of one",
        "duplicate of one; its input is not kept, because Postgres cannot write it out",
        "duplicate of one",
    ]


def test_full_text_is_filled_past_an_input_that_cannot_be_read(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(connection, trigger, [accepted("s", 0, b'{"note":"before"}')])
    create_unreadable(connection, trigger, 1)
    create_for(connection, trigger, [accepted("s", 2, b'{"note":"after"}')])
    connection.commit()
    while search_index.index_new(connection, margin=timedelta(0)):
        pass
    for text, expected in (("before", [0]), ("after", [2]), ("test", [2, 1, 0]), ("hidden", [])):
        found = work_orders.list_work_orders(connection, Filter(trigger=name, text=text))
        assert [row.position for row in found] == expected, text


def test_an_export_has_a_placeholder_for_an_input_that_cannot_be_read(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    create_unreadable(connection, trigger, 1)
    create_for(connection, trigger, [accepted("s", 2)])
    connection.commit()
    lines = b"".join(work_orders.export_parts(connection, Filter(trigger=name))).decode()
    assert [json.loads(line)["body"] for line in lines.splitlines()] == [{"a": 1}, PLACEHOLDER, {"a": 1}]


def test_an_input_that_cannot_be_read_is_listed_and_shown(connection: Connection, trigger: Trigger, name: str) -> None:
    unreadable = create_unreadable(connection, trigger, 1)
    assert [row.id for row in work_orders.list_work_orders(connection, Filter(trigger=name))] == [unreadable]
    found = work_orders.get_work_order(connection, unreadable)
    assert (json.loads(found.body or ""), json.loads(found.request or "")) == (PLACEHOLDER, {"from": "a test"})


def test_what_only_its_indents_make_too_long_is_shown_without_them(connection: Connection, trigger: Trigger) -> None:
    deep = b'{"a":' * 1000 + b"[" + b",".join([b"1"] * 40_000) + b"]" + b"}" * 1000
    found = work_orders.get_work_order(connection, create_unreadable(connection, trigger, 1, deep))
    assert (found.body or "").replace(" ", "") == deep.decode()


def test_an_output_that_cannot_be_read_is_shown_with_a_placeholder(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create_for(connection, trigger, [accepted("s", 0)])
    connection.commit()
    (run,) = finish_all(connection, name)
    connection.execute(
        "UPDATE workorders.run_results SET output = %s::text::jsonb WHERE run_id = %s",
        (BEYOND_WORKERS.decode(), run.run_id),
    )
    assert json.loads(runs.get_run(connection, run.run_id).output or "") == PLACEHOLDER


def test_an_input_that_cannot_be_read_is_run_again_wiped_and_deleted_like_any_other(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="2d", erase_after="1d")
    unreadable = create_unreadable(connection, trigger, 1, BEYOND_WORKERS)
    finish_all(connection, name, "exception")
    assert rerun_work_orders(connection, [unreadable], Attribution("ada", "a test"))[0] == 1
    connection.commit()
    (run,) = finish_all(connection, name, "exception")
    assert (run.attempt, run.is_unreadable) == (2, True)
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=1.5), pause=lambda _: None)
    assert work_orders.get_work_order(connection, unreadable).body is None
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=3), pause=lambda _: None)
    assert positions(connection, trigger, "s") == []


def test_a_raw_value_that_would_grow_stays_rejected_when_it_is_validated_again(
    connection: Connection, trigger: Trigger
) -> None:
    old = Rejection("too-large", "the value has 1 byte too many")
    create_for(connection, trigger, [accepted("s", 0)._replace(body=None, rejection=old, raw=BEYOND_POSTGRES)])
    (id_,) = ids(connection, trigger)
    assert rerun_work_orders(connection, [id_], Attribution("ada", "a test"))[0] == 0
    assert work_orders.get_work_order(connection, id_).reason == "number-out-of-range"
