"""The commands lead from a message to its work order, to each run, to log and output, and all the way back."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest

from support.command import Command
from support.runs import finish_all
from support.work_orders import accepted
from workorders.core import search, triggers
from workorders.core.database import Connection
from workorders.core.items import Item
from workorders.core.triggers import Trigger
from workorders.core.work_orders import create_for

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
    assert workorders("work-orders", "rerun", id_, "--who", "ada", "--why", "the registry\nwas down").code == 0
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
    assert "ada" not in runs[1]
    assert re.search(r"success +ada +the registry was down +20\d\d-", runs[2])
    newest = runs[-1].removeprefix("Log and output of the newest: workorders ").split()
    assert newest[2] in runs[2]
    run = workorders(*newest).out
    for part in (f"work order    {rerun}", "asked for by  ada", '"done": 1', "\nlog:\na line"):
        assert part in run
    back = re.search(r"^work order +(\S+)$", run, re.MULTILINE)
    assert back is not None
    source = workorders("work-orders", "show", back[1]).out
    assert f"stream      {STREAM}\nposition    7\n" in source
    assert f'"key": "order-{trigger.name}"' in source


def test_a_key_leads_to_the_same_work_order(
    workorders: Command, connection: Connection, trigger: Trigger, rerun: str
) -> None:
    while search.fill(connection, margin=timedelta(0)):
        pass
    connection.commit()
    (found,) = workorders("work-orders", "list", "--text", f"order-{trigger.name}", "--json").json()
    assert (found["id"], found["stream"], found["position"]) == (rerun, STREAM, 7)


def test_the_runs_of_one_work_order_are_listed_with_who_asked_and_why(
    workorders: Command, trigger: Trigger, rerun: str
) -> None:
    found = workorders("runs", "list", "--work-order", rerun, "--json").json()
    assert [(run["attempt"], run["requested_by"], run["why"]) for run in found] == [
        (2, "ada", "the registry\nwas down"),
        (1, None, None),
    ]
    runs = workorders("work-orders", "show", rerun, "--json").json()["runs"]
    assert [run["id"] for run in runs] == [run["id"] for run in reversed(found)]
    assert [run["why"] for run in runs] == [None, "the registry\nwas down"]
    _, line, first = workorders("runs", "list", "--work-order", rerun).out.splitlines()
    assert "  success  ada  the registry was down" in line
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
