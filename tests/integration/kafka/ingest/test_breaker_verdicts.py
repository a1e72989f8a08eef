"""What the breaker found stays with a range, as long as reading it again would find the same."""

import pytest

from support.ingesting import attempt, no_proof, partition_of, plan, same_log
from support.work_orders import accepted_range
from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ingest import breaker_verdicts
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

SHARE = 0.5


@pytest.fixture
def ranges(name: str) -> list[OffsetRange]:
    return [OffsetRange(partition_of(name, number), 0, 5) for number in (0, 1)]


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, ranges: list[OffsetRange]) -> int:
    define(connection, trigger.name)
    return plan(connection, trigger, *ranges)


def define(connection: Connection, name: str, **fields: str) -> None:
    """Write the trigger's definition down, as a planner does."""
    definition = {"name": name, "workflow": "admit", "topics": [name], **fields}
    triggers.register(connection, name=name, type_="kafka", workflow="admit", definition=definition)
    connection.commit()


def keep(connection: Connection, batch_id: int, range_: OffsetRange, *, epoch: int | None = None) -> None:
    """Let the newest attempt, or another one, find too much rejected."""
    taken = positions.take_epoch(connection, batch_id) if epoch is None else epoch
    breaker_verdicts.keep(connection, batches.load(connection, batch_id), taken, {range_: "Rubbish."}, SHARE)
    connection.commit()


def standing(connection: Connection, batch_id: int, share: float | None = SHARE) -> dict[OffsetRange, str]:
    batch = batches.load(connection, batch_id)
    connection.rollback()
    return {range_: str(error) for range_, error in breaker_verdicts.standing(batch, batch.ranges, share).items()}


def test_a_verdict_stands_for_its_range_alone_and_says_how_to_have_it_judged_anew(
    connection: Connection, ranges: list[OffsetRange], batch_id: int
) -> None:
    assert standing(connection, batch_id) == {}
    keep(connection, batch_id, ranges[0])
    found = standing(connection, batch_id)
    assert list(found) == [ranges[0]]
    assert found[ranges[0]].startswith("Rubbish. Nothing of that has changed since")
    assert "clear the task" in found[ranges[0]]


@pytest.mark.parametrize("share", [0.6, None])
def test_it_falls_with_the_limit(
    connection: Connection, ranges: list[OffsetRange], batch_id: int, share: float | None
) -> None:
    keep(connection, batch_id, ranges[0])
    assert standing(connection, batch_id, share) == {}


@pytest.mark.parametrize(
    ("field", "value", "stands"),
    [("tombstones", "accept", False), ("max_message_bytes", "2 KiB", False), ("pool", "other", True)],
)
def test_it_falls_with_the_reader_and_with_nothing_else_of_the_trigger(
    connection: Connection, ranges: list[OffsetRange], batch_id: int, *, field: str, value: str, stands: bool, name: str
) -> None:
    keep(connection, batch_id, ranges[0])
    define(connection, name, **{field: value})
    assert bool(standing(connection, batch_id)) is stands


def test_it_falls_with_another_version_of_the_program(
    connection: Connection, ranges: list[OffsetRange], batch_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(connection, batch_id, ranges[0])
    monkeypatch.setattr(breaker_verdicts, "__version__", "another one")
    assert standing(connection, batch_id) == {}


def test_it_is_forgotten_on_request(connection: Connection, ranges: list[OffsetRange], batch_id: int) -> None:
    keep(connection, batch_id, ranges[0])
    breaker_verdicts.forget(connection, batch_id)
    assert standing(connection, batch_id) == {}


def test_an_older_attempt_leaves_none(connection: Connection, ranges: list[OffsetRange], batch_id: int) -> None:
    older = positions.take_epoch(connection, batch_id)
    positions.take_epoch(connection, batch_id)
    keep(connection, batch_id, ranges[0], epoch=older)
    assert standing(connection, batch_id) == {}


def test_a_finished_range_has_none_and_gets_none(
    connection: Connection, ranges: list[OffsetRange], batch_id: int
) -> None:
    keep(connection, batch_id, ranges[0])
    made = attempt(connection, batch_id)
    ingest(connection, made, accepted_range(stream_name(ranges[0].partition), 0, 5), no_proof, same_log)
    keep(connection, batch_id, ranges[0])
    assert batches.load(connection, batch_id).ranges[0].breaker_verdict is None
    connection.rollback()
    assert standing(connection, batch_id) == {}
