"""Reruns, cancels, exports and retention as they are typed."""

import json
import re
from pathlib import Path

import pytest

from support.admission import limit
from support.command import Command
from support.runs import finish_all, keeping
from support.work_orders import accepted_range, rejected
from workorders.cli.account import account
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
    done = workorders(*command, "--reason", "a test", "--actor", "ada", "--json").json()
    assert (done["state"], done["done"], done["skipped"], done["actor"]) == ("finished", 3, {}, "ada")
    assert done["account"] == account()
    names = "id kind state error filter options actor account reason total done skipped"
    assert set(done) == {*names.split(), "created_at", "started_at", "heartbeat_at", "finished_at"}
    listed = workorders("jobs", "list", "--json").json()
    assert done["id"] in [job["id"] for job in listed]
    shown = workorders("jobs", "show", str(done["id"]))
    assert "trigger " + name in shown.out
    assert workorders("jobs", "cancel", str(done["id"])).code == 1


def test_a_detached_job_is_resumed_and_cancelled_by_its_number(
    workorders: Command, trigger: Trigger, name: str
) -> None:
    command = ("work-orders", "rerun", "--trigger", name, "--reason", "a test", "--detach", "--json")
    first, second = (workorders(*command).json() for _ in range(2))
    assert (first["state"], first["done"]) == ("waiting", 0)
    assert "the Dag workorders_maintenance runs it" in workorders(*command).err
    assert workorders("jobs", "resume", str(first["id"]), "--json").json()["done"] == 3
    assert "is cancelled: 0 of 5 done" in workorders("jobs", "cancel", str(second["id"])).out


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


def test_a_rerun_beyond_a_limit_reports_it_before_and_after(
    workorders: Command, connection: Connection, trigger: Trigger, name: str
) -> None:
    limit(connection, name, waiting=3, kind="hard")
    connection.commit()
    command = ("work-orders", "rerun", "--trigger", name, "--state", "failed")
    assert workorders(*command, "--dry-run", "--json").json()["capacity"] == {name: 2}
    assert f"Workflow {name} takes 2 more runs now" in workorders(*command, "--dry-run").err
    ended = workorders(*command, "--reason", "a test")
    assert (ended.code, "is waiting: 2 of 3 done" in ended.out) == (1, True)
    assert f"Workflow {name} takes no more runs now: its hard limit is 3 waiting." in ended.err
    (job,) = [job for job in workorders("jobs", "list", "--json").json() if job["filter"].get("trigger") == name]
    assert job["error"].startswith(f"Workflow {name} takes no more runs now")


def test_nothing_is_changed_without_a_reason_or_without_any_filter(workorders: Command) -> None:
    assert workorders("work-orders", "rerun", "--state", "failed").code == 2
    refused = workorders("work-orders", "cancel", "--reason", "a test")
    assert (refused.code, "no filter at all" in refused.err) == (1, True)
    assert workorders("work-orders", "rerun", "--state", "ended", "--dry-run").code == 2


def test_an_export_writes_what_matches(workorders: Command, trigger: Trigger, name: str, tmp_path: Path) -> None:
    file = tmp_path / "failed.jsonl"
    done = workorders("work-orders", "export", str(file), "--trigger", name, "--state", "failed", "--json").json()
    assert (done["state"], done["done"]) == ("finished", 3)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["position"] for line in lines] == [0, 1, 2]
    again = workorders("work-orders", "export", str(file), "--trigger", name)
    assert (again.code, "already exists" in again.err) == (1, True)


def test_a_detached_export_reports_that_only_this_machine_can_do_it(
    workorders: Command, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "all.csv"
    ended = workorders("work-orders", "export", str(file), "--trigger", name, "--detach")
    assert ended.code == 0
    match = re.search(rf"only `workorders jobs resume (\d+) --file {re.escape(str(file))}` on this machine", ended.err)
    assert match is not None
    assert "workorders_maintenance" not in ended.err
    refused = workorders("jobs", "resume", match[1])
    assert (refused.code, f"is an export to {file}, which is not the file that you named" in refused.err) == (1, True)
    assert workorders("jobs", "resume", match[1], "--file", str(file)).code == 0
    assert file.is_file()


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


def test_the_latest_counts_are_those_of_the_upkeep(workorders: Command, trigger: Trigger, name: str) -> None:
    assert workorders("search", "update").code == 0
    assert workorders("work-orders", "count", "--latest", "--json").code == 0
    refused = workorders("work-orders", "count", "--latest", "--state", "failed")
    assert refused.code == 2


def test_retention_is_counted_and_run(workorders: Command, connection: Connection, trigger: Trigger, name: str) -> None:
    keeping(connection, name, days=1, keep_errors_days=2)
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
    (due,) = [kept for kept in workorders("retention", "run", "--dry-run", "--json").json() if kept["workflow"] == name]
    assert due["deleted"] == 4
    assert workorders("retention", "run", "--json").json()["deleted"] >= 4
    # Asked without the history, which relies on ids that never move into the past, as this test moved them.
    left = connection.execute(
        "DELETE FROM workorders.work_orders WHERE trigger_id = %s RETURNING state::text", (trigger.id,)
    ).fetchall()
    connection.commit()
    assert left == [("pending",)]
