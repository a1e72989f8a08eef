"""Reruns, cancels, exports and retention as they are typed."""

import json
import os
from pathlib import Path

import pytest
import typer

from support.command import Command
from support.runs import finish_all, keeping
from support.work_orders import accepted_range, rejected
from workorders.cli.options import account
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """Three work orders that failed, one that waits and one that was rejected."""
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, accepted_range("s", 0, 3))
    connection.commit()
    finish_all(connection, name, "failed")
    create_for(connection, trigger, [*accepted_range("s", 3, 4), rejected("s", 4)])
    connection.commit()
    return trigger


def test_a_rerun_is_counted_first_then_done_and_kept_as_a_job(workorders: Command, trigger: Trigger, name: str) -> None:
    command = ("work-orders", "rerun", "--trigger", name, "--state", "failed")
    dry = workorders(*command, "--dry-run", "--json").json()
    assert (dry["total"], dry["by_state"]) == (3, {"failed": 3})
    done = workorders(*command, "--reason", "a test", "--actor", "ada", "--yes", "--json").json()
    assert (done["state"], done["done"], done["skipped"], done["actor"]) == ("finished", 3, {}, "ada")
    assert done["account"] == account()
    names = "id kind state error filter options actor account reason total done skipped last_id"
    assert set(done) == {*names.split(), "created_at", "started_at", "heartbeat_at", "finished_at"}
    listed = workorders("bulk", "list", "--json").json()
    assert done["id"] in [job["id"] for job in listed]
    shown = workorders("bulk", "show", str(done["id"]))
    assert "trigger " + name in shown.out
    ended = workorders("bulk", "cancel", str(done["id"]), "--reason", "too late", "--yes")
    assert (ended.code, "is finished already; nothing was changed" in ended.err) == (1, True)


def test_a_detached_job_is_resumed_and_cancelled_by_its_number(
    workorders: Command, trigger: Trigger, name: str
) -> None:
    command = ("work-orders", "rerun", "--trigger", name, "--reason", "a test", "--detach", "--yes", "--json")
    first, second = (workorders(*command).json() for _ in range(2))
    assert (first["state"], first["done"]) == ("waiting", 0)
    assert "the Dag workorders_maintenance runs it" in workorders(*command).err
    assert workorders("bulk", "resume", str(first["id"]), "--json").json()["done"] == 3
    ended = workorders("bulk", "cancel", str(second["id"]), "--reason", "the wrong filter", "--actor", "ada", "--yes")
    assert "is cancelled: 0 of 5 done" in ended.out
    action = workorders("actions", "list", "--json").json()[0]
    assert (action["action"], action["details"], action["reason"]) == (
        "bulk cancel",
        {"bulk_operation": second["id"]},
        "the wrong filter",
    )
    assert (action["actor"], action["account"]) == ("ada", account())


@pytest.mark.parametrize("answer", [False, True])
def test_what_matches_is_counted_before_a_person_confirms_and_one_work_order_is_not(
    workorders: Command,
    connection: Connection,
    trigger: Trigger,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answer: bool,
) -> None:
    monkeypatch.setattr(typer, "confirm", lambda _: answer)
    ended = workorders("work-orders", "cancel", "--trigger", name, "--reason", "a test")
    assert ended.out.splitlines()[:3] == ["state     work orders", "pending             1", "failed              3"]
    assert (ended.code, "Nothing was changed." in ended.out) == ((0, False) if answer else (1, True))
    asked = workorders("work-orders", "cancel", "--trigger", name, "--reason", "a test", "--json")
    assert (asked.code, "it needs --dry-run or --yes" in asked.err) == (2, True)
    (first, *_) = work_orders.list_work_orders(connection, Filter(trigger=name, state="failed"))
    monkeypatch.setattr(typer, "confirm", pytest.fail)
    assert workorders("work-orders", "rerun", str(first.id), "--reason", "a test").code == 0


def test_a_rerun_from_the_start_begins_a_new_generation(
    workorders: Command, connection: Connection, trigger: Trigger, name: str
) -> None:
    failed, *_ = work_orders.list_work_orders(connection, Filter(trigger=name, state="failed"))
    done = workorders("work-orders", "rerun", str(failed.id), "--from-start", "--reason", "a test", "--json").json()
    assert done["options"] == {"from_start": True}
    assert [
        run["generation"] for run in workorders("work-orders", "show", str(failed.id), "--json").json()["runs"]
    ] == [
        1,
        2,
    ]


def test_one_work_order_that_cannot_be_rerun_ends_the_command_with_1(
    workorders: Command, connection: Connection, trigger: Trigger, name: str
) -> None:
    (waiting,) = work_orders.list_work_orders(connection, Filter(trigger=name, state="pending"))
    ended = workorders("work-orders", "rerun", str(waiting.id), "--reason", "a test")
    assert (ended.code, "1 not finished" in ended.out) == (1, True)
    assert workorders("work-orders", "cancel", str(waiting.id), "--reason", "a test").code == 0


def test_nothing_is_changed_without_a_reason_or_without_any_filter(workorders: Command) -> None:
    assert workorders("work-orders", "rerun", "--state", "failed").code == 2
    refused = workorders("work-orders", "cancel", "--reason", "a test", "--yes")
    assert (refused.code, "no filter at all" in refused.err) == (1, True)
    assert workorders("work-orders", "rerun", "--state", "ended", "--dry-run").code == 2


def test_an_export_is_a_file_of_its_owner_that_overwrites_none(
    workorders: Command, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "failed.jsonl"
    command = ("work-orders", "export", str(file), "--trigger", name, "--state", "failed")
    before = os.umask(0)
    try:
        done = workorders(*command)
    finally:
        os.umask(before)
    assert done.out == f"{file} is complete and has {file.stat().st_size:,} bytes.\n"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["position"] for line in lines] == [0, 1, 2]
    assert file.stat().st_mode & 0o777 == 0o600
    again = workorders(*command)
    assert (again.code, "could not be written (File exists)" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("none/all.jsonl",), 1, "{folder}/none/all.jsonl could not be written (No such file or directory)"),
        (("all.jsonl", "--trigger", "unknown"), 1, "No trigger unknown"),
    ],
)
def test_an_export_that_fails_leaves_no_file(
    workorders: Command, tmp_path: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    file, *more = arguments
    ended = workorders("work-orders", "export", str(tmp_path / file), *more)
    assert (ended.code, sentence.format(folder=tmp_path) in ended.err) == (code, True), ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_searched_and_the_next_page_repeats_it(
    workorders: Command, connection: Connection, trigger: Trigger, name: str
) -> None:
    search_index.write_index(
        connection, [row.id for row in work_orders.list_work_orders(connection, Filter(trigger=name))]
    )
    connection.commit()
    found = workorders("work-orders", "list", "--trigger", name, "--text", "test", "--limit", "2")
    assert "Texts are searched up to" in found.err
    assert "--text test" in found.out
    assert workorders("work-orders", "count", "--trigger", name, "--text", "rubbish", "--json").json()["rejected"] == 1
    assert workorders("work-orders", "list", "--text", "-").code == 1


def test_retention_is_run_and_recorded(
    workorders: Command, connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, delete_after="1d", delete_errors_after="2d")
    connection.execute(
        "UPDATE workorders.work_orders SET created_at = created_at - interval '3 days', "
        "id = (lpad(to_hex((extract(epoch FROM now() - interval '3 days') * 1000)::bigint), 12, '0') "
        "|| substr(replace(id::text, '-', ''), 13))::uuid WHERE trigger_id = %s",
        (trigger.id,),
    )
    # Not by NOT IN, which would compare each row of a table that all tests share with every other one.
    connection.execute(
        "DELETE FROM workorders.dataclips AS left_over "
        "WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = left_over.id)"
    )
    connection.execute(
        "DELETE FROM workorders.rejections AS left_over "
        "WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = left_over.work_order_id)"
    )
    connection.commit()
    assert workorders("retention", "run", "--yes").code == 2, "without a reason"
    done = workorders("retention", "run", "--reason", "an audit", "--yes")
    assert int(done.out.replace(",", "").split()[0]) >= 4
    action = workorders("actions", "list", "--limit", "1", "--json").json()[0]
    assert (action["action"], action["reason"]) == ("retention run", "an audit")
    # Asked without the history, which relies on ids that never move into the past, as this test moved them.
    left = connection.execute(
        "DELETE FROM workorders.work_orders WHERE trigger_id = %s RETURNING state::text", (trigger.id,)
    ).fetchall()
    connection.commit()
    assert left == [("pending",)]
