"""The commands lead from a message to its work order, to each run, to log and output, and all the way back."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest

from support.admission import BY_ID, events, ids, register
from support.command import Command
from support.finished_steps import add_step
from support.runs import finish_all
from support.work_orders import accepted
from workorders.core import triggers
from workorders.core.creation.create_one import create_one
from workorders.core.creation.work_orders import create_for
from workorders.core.history import search_index
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

STREAM = "orders/0@topic-id"


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger whose workflow is its own, so that claims take no other test's work orders."""
    return triggers.register(connection, name=name, type_="test", workflow=name, definition={})


@pytest.fixture
def rerun(workorders: Command, connection: Connection, trigger: Trigger) -> str:
    """A work order of the message at offset 7 with the key `order-<name>`, that failed, was rerun, and ended well."""
    request = b'{"key": "order-%s"}' % trigger.name.encode()
    create_for(connection, trigger, [accepted(STREAM, 6), Item(STREAM, 7, request, b'{"a": 1}'), accepted(STREAM, 8)])
    connection.commit()
    finish_all(connection, trigger.name, "failed")
    id_ = of_offset(workorders, trigger, 7)
    assert workorders("work-orders", "rerun", id_, "--actor", "olga", "--reason", "the registry\nwas down").code == 0
    finish_all(connection, trigger.name, "success")
    return id_


def of_offset(workorders: Command, trigger: Trigger, offset: int) -> str:
    options = ("--trigger", trigger.name, "--stream", "orders/0@", "--from-position", str(offset), "--json")
    (found,) = workorders("work-orders", "list", *options, "--to-position", str(offset + 1)).json()
    return str(found["id"])


def test_a_message_leads_to_its_work_order_to_its_runs_to_log_and_output_and_back(
    workorders: Command, trigger: Trigger, rerun: str
) -> None:
    shown = workorders("work-orders", "show", rerun).out
    runs = shown.partition("\nruns:\n")[2].splitlines()
    assert [line.split()[0] for line in runs[1:3]] == ["1", "2"]
    assert "olga" not in runs[1]
    assert re.search(r"success +olga +the registry was down +20\d\d-", runs[2])
    newest = runs[-1].removeprefix("Log and output of the newest: workorders ").split()
    assert newest[2] in runs[2]
    run = workorders(*newest).out
    for part in ("actor          olga", '"done": 1', "log            a line"):
        assert part in run
    back = re.search(r"^work order id +(\S+)$", run, re.MULTILINE)
    assert back is not None
    assert back[1] == rerun
    source = workorders("work-orders", "show", back[1]).out
    assert re.search(rf"^stream +{STREAM}\nposition +7$", source, re.MULTILINE)
    assert f'"key": "order-{trigger.name}"' in source


def test_a_work_order_and_its_lost_run_show_the_steps_that_were_finished(
    workorders: Command, connection: Connection, trigger: Trigger
) -> None:
    create_for(connection, trigger, [accepted(STREAM, 1)])
    connection.commit()
    (run,) = finish_all(connection, trigger.name, "lost")
    add_step(connection, run.run_id, "label", {"label": "L-1\x1b"})
    add_step(connection, run.run_id, "ship", 17, committed_elsewhere=True)
    for shown in (("work-orders", "show", str(run.work_order_id)), ("runs", "show", str(run.run_id))):
        lines = workorders(*shown).out.partition("\nsteps:\n")[2].splitlines()
        assert re.search(r'^label +step +1 +1 +20\S+ +{"label": "L-1\\u001b"}$', lines[1])
        assert re.search(r"^ship +transaction +1 +1 +20\S+ +17$", lines[2])
        steps = workorders(*shown, "--json").json()["steps"]
        assert [(step["name"], step["result"]) for step in steps] == [("label", {"label": "L-1\x1b"}), ("ship", 17)]
    assert "2 steps were finished when this run ended as lost; the last one is ship." in workorders(*shown).out


def test_a_key_leads_to_the_same_work_order(
    workorders: Command, connection: Connection, trigger: Trigger, rerun: str
) -> None:
    while search_index.index_new(connection, margin=timedelta(0)):
        pass
    connection.commit()
    (found,) = workorders("work-orders", "list", "--text", f"order-{trigger.name}", "--json").json()
    assert (found["id"], found["stream"], found["position"]) == (rerun, STREAM, 7)


def test_the_runs_of_one_work_order_are_listed_with_actor_and_reason(
    workorders: Command, trigger: Trigger, rerun: str
) -> None:
    found = workorders("runs", "list", "--work-order", rerun, "--json").json()
    assert [(run["attempt"], run["actor"], run["reason"]) for run in found] == [
        (2, "olga", "the registry\nwas down"),
        (1, None, None),
    ]
    runs = workorders("work-orders", "show", rerun, "--json").json()["runs"]
    assert [run["id"] for run in runs] == [run["id"] for run in reversed(found)]
    assert [run["reason"] for run in runs] == [None, "the registry\nwas down"]
    _, line, first = workorders("runs", "list", "--work-order", rerun).out.splitlines()
    assert re.search(r" success +olga +the registry was down", line)
    assert "failed" in first


def test_the_runs_of_an_unknown_work_order_are_no_empty_list(workorders: Command) -> None:
    ended = workorders("runs", "list", "--work-order", str(uuid4()))
    assert (ended.code, ended.out) == (1, "")
    assert "There is no work order" in ended.err


def test_a_work_order_that_waits_has_no_runs(workorders: Command, connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted(STREAM, 0)])
    connection.commit()
    id_ = of_offset(workorders, trigger, 0)
    assert workorders("runs", "list", "--work-order", id_, "--json").json() == []
    assert "runs" not in workorders("work-orders", "show", id_).out


def test_an_original_leads_to_its_repeats_and_each_repeat_to_the_original(
    workorders: Command, connection: Connection, name: str
) -> None:
    trigger = register(connection, name, idempotency=BY_ID)
    create_for(connection, trigger, events("a" * 13))
    connection.commit()
    while search_index.index_new(connection, margin=timedelta(0)):
        pass
    connection.commit()
    first, *repeats = (str(id_) for id_ in ids(connection, trigger))
    shown = workorders("work-orders", "show", first).out
    assert re.search(r"^kept +12\nignored +0\nlast +20\d\d-\S+Z$", shown, re.MULTILINE)
    _, _, command = shown.partition("\n\nRepeats: ")
    found = workorders(*command.split()[1:], "--json").json()
    assert [row["id"] for row in found] == repeats[::-1]
    json = workorders("work-orders", "show", first, "--json").json()
    assert json["repeats"]["kept"] == 12
    assert json["duplicate_of"] is None
    repeat = workorders("work-orders", "show", repeats[0], "--json").json()
    assert (repeat["duplicate_of"], repeat["repeats"]) == (first, None)
    assert f"duplicate of {first}" in workorders("work-orders", "show", repeats[0]).out


def test_repeats_of_a_key_are_shown_with_when_the_last_came(
    workorders: Command, connection: Connection, trigger: Trigger
) -> None:
    made = create_one(connection, trigger, accepted(None, None), key="k")
    create_one(connection, trigger, accepted(None, None), key="k")
    connection.commit()
    shown = workorders("work-orders", "show", str(made.id)).out
    assert re.search(r"^kept +0\nignored +1\nlast +20\d\d-\S+Z$", shown, re.MULTILINE)
    known = workorders("work-orders", "show", str(made.id), "--json").json()["repeats"]
    assert (known["kept"], known["ignored"]) == (0, 1)
