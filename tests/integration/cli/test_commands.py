"""Every command against real data: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import orjson
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.command import Command
from support.groups import commit
from support.ingesting import finish, look, plan
from support.topics import Topics
from support.work_orders import accepted, accepted_range, rejected
from workorders.core import schema
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.ledger import batches, positions, stalls, virtual_partitions
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition

pytestmark = pytest.mark.integration


@pytest.fixture
def batch(connection: Connection, trigger: Trigger) -> int:
    """An unfinished batch of two partitions."""
    ranges = [OffsetRange(Partition("orders", number, "id-1"), 0, 10) for number in range(2)]
    for range_ in ranges:
        positions.insert(connection, trigger, range_.partition, 0)
    batch_id = batches.create(connection, trigger, ranges)
    connection.commit()
    return batch_id


def create(connection: Connection, trigger: Trigger, *items: Item) -> None:
    create_for(connection, trigger, items)
    connection.commit()


def only_id(workorders: Command, trigger: Trigger) -> str:
    (found,) = workorders("work-orders", "list", "--trigger", trigger.name, "--json").json()
    return str(found["id"])


def test_the_list_ends_with_the_line_to_type_for_the_next_page(
    workorders: Command, connection: Connection, trigger: Trigger
) -> None:
    create(connection, trigger, *accepted_range("s", 0, 5))
    arguments = ["work-orders", "list", "--trigger", trigger.name, "--since", "2h", "--limit", "2"]
    seen: list[str] = []
    for _ in range(3):
        ended = workorders(*arguments)
        assert ended.code == 0
        seen += [line.split()[-1] for line in ended.out.splitlines() if line.startswith("0")]
        *_, last = ended.out.splitlines()
        arguments = last.removeprefix("Next page: workorders ").split()
    assert seen == ["4", "3", "2", "1", "0"]
    assert "Next page" not in ended.out


def test_an_input_is_shown_with_every_digit(workorders: Command, connection: Connection, trigger: Trigger) -> None:
    create(
        connection,
        trigger,
        accepted("orders/0@7U9l3H5RQLSFbu3Y/Dhtww", 3, b'{"a":0.1000000000000000000000000001,"b":"x"}'),
    )
    id_ = only_id(workorders, trigger)
    text = workorders("work-orders", "show", id_).out
    assert text.startswith(f"id             {id_}\n")
    assert "batch          deleted by retention: it was older" in text
    assert '    "a": 0.1000000000000000000000000001,\n' in text
    shown = workorders("work-orders", "show", id_, "--json")
    assert "0.1000000000000000000000000001" in shown.out
    assert shown.json()["body"]["b"] == "x"
    assert shown.json()["reason"] is None
    assert shown.json()["runs"] == []


def test_a_message_cannot_command_the_terminal(
    workorders: Command, connection: Connection, trigger: Trigger, tmp_path: Path
) -> None:
    raw = b"\x1b]0;owned\x07\xff\0"
    item = Item("s\x1b[2J", 0, '{"k":"\u009b2J"}'.encode(), None, Rejection("not-json", "bad \u202e text"), raw)
    create(connection, trigger, item)
    id_ = only_id(workorders, trigger)
    listed = workorders("work-orders", "list", "--trigger", trigger.name).out
    shown = workorders("work-orders", "show", id_, "--raw", str(tmp_path / "raw"))
    for text in (listed, shown.out):
        assert not {"\x1b", "\x07", "\u009b", "\u202e"} & set(text)
    assert "00000000  1b 5d 30 3b 6f 77 6e 65 64 07 ff 00" in shown.out
    assert (tmp_path / "raw").read_bytes() == raw
    assert (tmp_path / "raw").stat().st_mode & 0o777 == 0o600


def test_a_raw_value_overwrites_no_file(
    workorders: Command, connection: Connection, trigger: Trigger, tmp_path: Path
) -> None:
    create(connection, trigger, rejected("s", 0))
    (tmp_path / "raw").write_bytes(b"precious")
    ended = workorders("work-orders", "show", only_id(workorders, trigger), "--raw", str(tmp_path / "raw"))
    assert (ended.code, ended.out) == (1, "")
    assert "File exists" in ended.err
    assert (tmp_path / "raw").read_bytes() == b"precious"


def test_states_are_counted(workorders: Command, connection: Connection, trigger: Trigger) -> None:
    create(connection, trigger, accepted("s", 0), accepted("s", 1), rejected("s", 2))
    counts = workorders("work-orders", "count", "--trigger", trigger.name, "--json").json()
    assert (counts["pending"], counts["rejected"], counts["success"]) == (2, 1, 0)
    *_, total = workorders("work-orders", "count", "--trigger", trigger.name).out.splitlines()
    assert total.split() == ["total", "3"]


def test_a_batch_is_shown_from_planned_to_finished(
    workorders: Command, connection: Connection, trigger: Trigger, batch: int
) -> None:
    def listed() -> dict[str, object]:
        (row,) = workorders("batches", "list", "--trigger", trigger.name, "--json").json()
        assert isinstance(row, dict)
        return row

    assert (listed()["id"], listed()["partitions"]) == (batch, 2)
    names = "id trigger planned_at finished_at partitions created rejected filtered"
    assert set(listed()) == set(names.split())
    first, second = (range_.range for range_ in batches.load(connection, batch).ranges)
    finish(connection, batch, first, Created(9, 1, 0))
    connection.commit()
    assert (listed()["finished_at"], listed()["created"], listed()["rejected"]) == (None, 9, 1)
    epoch = positions.take_epoch(connection, batch)
    stalls.record(connection, batches.load(connection, batch), epoch, {second: "The disk is full."})
    connection.commit()
    text = workorders("batches", "show", str(batch)).out
    assert "The disk is full." in text
    shown = workorders("batches", "show", str(batch), "--json").json()
    assert shown["status"] == "unfinished"
    assert [range_["finished_at"] is None for range_ in shown["ranges"]] == [False, True]
    assert shown["ranges"][1]["range"]["partition"] == {"topic": "orders", "partition": 1, "topic_id": "id-1"}
    finish(connection, batch, second, Created(10, 0, 0))
    connection.commit()
    assert (listed()["finished_at"] is None, listed()["created"]) == (False, 19)


def test_a_batch_shows_how_much_of_a_range_is_stored(
    workorders: Command, connection: Connection, trigger: Trigger
) -> None:
    range_ = OffsetRange(Partition("visits", 0, "id"), 0, 40)
    batch = plan(connection, trigger, range_, cut_at=(10, 20, 30))
    shown = workorders("batches", "show", str(batch)).out
    assert shown.splitlines()[-1] == "visits 0 [0, 40): 0 of 4 virtual partitions are stored."
    (first, *_) = batches.load(connection, batch).ranges[0].virtual_partitions
    assert isinstance(first.range, VirtualPartition)
    virtual_partitions.finish(connection, batch, first.range, Created(10))
    connection.commit()
    shown = workorders("batches", "show", str(batch)).out
    assert shown.splitlines()[-1] == "visits 0 [0, 40): 1 of 4 virtual partitions are stored."


def test_a_batch_shows_the_dag_run_to_clear(workorders: Command, batch: int) -> None:
    assert ["dag", "run", f"batch_{batch}"] in map(
        str.split, workorders("batches", "show", str(batch)).out.splitlines()
    )
    assert workorders("batches", "show", str(batch), "--json").json()["dag_run"] == f"batch_{batch}"


def test_the_status_shows_the_reason_of_a_stall_below_the_table(
    workorders: Command, connection: Connection, trigger: Trigger, batch: int, topics: Topics
) -> None:
    epoch = positions.take_epoch(connection, batch)
    range_ = batches.load(connection, batch).ranges[1].range
    positions.stall(connection, trigger, range_, epoch=epoch, error="The disk\nis full.")
    connection.commit()
    ended = workorders("status", trigger.name)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "orders 1 is stalled: The disk is full."
    (found,) = workorders("status", trigger.name, "--json").json()
    names = "name workflow consumer_group kafka_connection topics problem partitions"
    assert list(found) == names.split()
    waiting, stalled = found["partitions"]
    names = (
        "topic partition topic_id next_offset committed_offset last_stable high_watermark lag "
        "committed_lag state batch_id since attempts next_attempt_at last_error"
    )
    assert set(waiting) == set(names.split())
    assert (waiting["state"], waiting["batch_id"], waiting["next_attempt_at"]) == ("in batch", batch, None)
    assert (stalled["state"], stalled["attempts"], stalled["last_error"]) == ("stalled", 1, "The disk\nis full.")


def test_a_check_of_the_status_exits_with_1_and_tells_what_is_wrong(
    workorders: Command, connection: Connection, trigger: Trigger, topics: Topics, cluster: KafkaAdmin
) -> None:
    topic = topics.create(trigger.name)
    topics.produce(topic, [b"{}"] * 5)
    (partition,) = run(cluster.partitions([topic])).require()
    positions.insert(connection, trigger, partition, 0)
    connection.commit()
    never = workorders("status", trigger.name, "--check")
    assert (never.code, "Its listener has never looked" in never.err) == (1, True)
    for end, ago in ((0, timedelta(minutes=10)), (5, timedelta())):
        look(connection, trigger.name, {partition: end}, ago=ago)
    assert workorders("status", trigger.name, "--check").code == 0


def test_the_status_shows_where_the_group_is_and_what_waits_for_a_transaction(
    workorders: Command, connection: Connection, trigger: Trigger, topics: Topics, cluster: KafkaAdmin
) -> None:
    topic = topics.create(trigger.name)
    topics.produce(topic, [b"{}"] * 5)
    (partition,) = run(cluster.partitions([topic])).require()
    positions.insert(connection, trigger, partition, 5)
    connection.commit()
    commit(cluster, f"workorders-{trigger.name}", {partition: 99})
    with topics.open_transaction(topic, [b"{}"]):
        ended = workorders("status", trigger.name)
        (found,) = workorders("status", trigger.name, "--json").json()
    assert ended.code == 0
    _, heading, line = ended.out.splitlines()
    assert "committed  last stable" in heading
    assert "waiting for an open transaction" in line
    (row,) = found["partitions"]
    assert (row["committed_offset"], row["next_offset"]) == (99, 5)
    assert row["state"] == "waiting for an open transaction"


def test_the_status_shows_the_ledger_while_kafka_is_unavailable(
    workorders: Command, trigger: Trigger, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps({"bootstrap.servers": f"127.0.0.1:{free_port()}"}))
    ended = workorders("status", trigger.name)
    assert ended.code == 0
    assert "did not answer" in ended.err
    assert len(ended.err.splitlines()) == 1
    first = ended.out.splitlines()[2].split()
    assert first == ["orders", "0", "0", "?", "?", "?", "?", "?", "in", "batch", str(batch)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"password": "secret"}, "The database did not answer (connection failed: "),
        ({"options": "-c statement_timeout=200"}, "The database failed (canceling statement due to statement timeout"),
    ],
)
def test_an_error_that_stays_is_one_sentence_as_well(
    workorders: Command, stack: LocalStack, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], sentence: str
) -> None:
    monkeypatch.setattr(schema, "_revisions_in", lambda connection: connection.execute("SELECT pg_sleep(60)"))
    ended = workorders("db", "version", "--database", make_conninfo(stack.database_url, **wrong))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(sentence)
    assert "secret" not in ended.err


def test_a_database_that_takes_no_writes_is_one_sentence(workorders: Command, stack: LocalStack) -> None:
    only_reading = make_conninfo(stack.database_url, options="-c default_transaction_read_only=on")
    ended = workorders("retention", "run", "--reason", "a test", "--yes", "--database", only_reading)
    assert ended.code == 1
    assert ended.err.startswith("The database takes no writes (cannot execute ")
    assert len(ended.err.splitlines()) == 1


def test_the_triggers_of_the_database_are_listed(workorders: Command, trigger: Trigger, name: str) -> None:
    assert trigger.name in workorders("triggers", "list").out
    found = {row["name"]: row for row in workorders("triggers", "list", "--json").json()}
    assert found[trigger.name]["type"] == trigger.type


def test_the_tables_are_created_and_their_version_is_printed(workorders: Command, stack: LocalStack, name: str) -> None:
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    where = ("--database", stack.postgres.url(database))
    before = workorders("db", "version", *where)
    assert before.code == 1
    assert "run `workorders db migrate`" in before.err
    without = workorders("work-orders", "list", *where)
    assert without.code == 1
    assert "run `workorders db migrate`" in without.err
    assert workorders("db", "migrate", *where).out == f"The tables are at version {schema.newest()} now.\n"
    assert workorders("db", "migrate", *where).out == f"The tables are at version {schema.newest()} already.\n"
    assert workorders("db", "version", *where).out == f"{schema.newest()}\n"


def test_the_sql_of_an_upgrade_is_printed_and_nothing_is_changed_until_a_person_runs_it(
    workorders: Command, stack: LocalStack, name: str
) -> None:
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    where = ("--database", stack.postgres.url(database))
    printed = workorders("db", "migrate", "--sql", *where)
    assert (printed.code, printed.err, workorders("db", "version", *where).code) == (0, "", 1)
    with psycopg.connect(stack.postgres.url(database), autocommit=True) as connection:
        connection.execute(printed.out.encode())
    assert workorders("db", "version", *where).out == f"{schema.newest()}\n"
    again = workorders("db", "migrate", "--sql", *where)
    assert (again.code, again.out) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("work-orders", "list"),
        ("work-orders", "count"),
        ("work-orders", "show", "01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f"),
        ("batches", "list"),
        ("batches", "show", "1"),
        ("db", "version"),
        ("db", "migrate"),
    ],
)
def test_an_unavailable_database_is_one_sentence(workorders: Command, arguments: tuple[str, ...]) -> None:
    away = f"postgresql://a:secret@127.0.0.1:{free_port()}/a"
    ended = workorders(*arguments, "--database", away)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("The database did not answer (")
    assert len(ended.err.splitlines()) == 1
    assert "secret" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("status", "unknown"), "No trigger unknown "),
        (("work-orders", "list", "--trigger", "unknown"), "No trigger unknown "),
        (("work-orders", "list", "--workflow", "unknown"), "No workflow unknown is registered here yet"),
        (("work-orders", "show", "01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f"), "There is no work order 01997a3e"),
        (("batches", "list", "--trigger", "unknown"), "No trigger unknown "),
        (("batches", "show", "999999999"), "There is no batch 999999999 "),
    ],
)
def test_an_unknown_name_is_one_sentence(workorders: Command, arguments: tuple[str, ...], sentence: str) -> None:
    ended = workorders(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(sentence)
    assert len(ended.err.splitlines()) == 1


def test_the_installed_command_works_in_a_process_of_its_own(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    create(connection, trigger, accepted("s", 0))
    ended = subprocess.run(
        [sys.executable, "-m", "workorders.cli.main", "work-orders", "list", "--trigger", trigger.name, "--json"],
        env={**stack.environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert [row["position"] for row in orjson.loads(ended.stdout)] == [0]


def test_without_settings_of_its_own_the_command_uses_airflows_connections(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch: int, tmp_path: Path
) -> None:
    environment = {name: value for name, value in stack.environment().items() if not name.startswith("WORKORDERS_")}
    ended = subprocess.run(
        [sys.executable, "-m", "workorders.cli.main", "status", trigger.name, "--json"],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW_CONN_WORKORDERS_DB": stack.database_url,
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": stack.kafka_settings}),
        },
        capture_output=True,
        check=True,
    )
    (found,) = orjson.loads(ended.stdout)
    assert found["problem"] is None
    assert [row["batch_id"] for row in found["partitions"]] == [batch, batch]


def test_a_connection_that_airflow_does_not_have_is_one_sentence(stack: LocalStack, tmp_path: Path) -> None:
    environment = {name: value for name, value in stack.environment().items() if not name.startswith("WORKORDERS_")}
    ended = subprocess.run(
        [sys.executable, "-m", "workorders.cli.main", "status"],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW_CONN_ANOTHER": "postgresql://a@b/c",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Airflow has no connection workorders_db" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
