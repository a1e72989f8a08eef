"""No message and no schema costs more than its size allows, or ends in anything but an input or a rejection."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from support import hostile_schemas
from support.hostile_schemas import Case
from support.measured_mapping import MeasuredMapping

MAX_MEBIBYTES: Final = 256
MAX_SECONDS: Final = 10
"""Of the processor, for a message of at most 64 KiB and its schema, on a busy machine."""
MAX_REQUESTS: Final = 101
OUTCOMES: Final = re.compile("accepted|[a-z]+(-[a-z0-9]+)*")
"""An input, or the code of a rejection; exceptions and ends of the process have capitals or spaces."""
MANY: Final = settings(
    max_examples=100,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    # To make a case smaller that takes seconds each time would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.fixture(scope="module")
def worker() -> Iterator[MeasuredMapping]:
    with MeasuredMapping.running() as worker:
        yield worker


def require_bounded(worker: MeasuredMapping, case: Case) -> None:
    cost = worker.cost(case)
    assert OUTCOMES.fullmatch(cost.outcome), cost
    assert cost.mebibytes <= MAX_MEBIBYTES, cost
    assert cost.seconds <= MAX_SECONDS, cost
    assert cost.requests <= MAX_REQUESTS, cost


@MANY
@given(hostile_schemas.avro())
def test_avro_is_bounded(worker: MeasuredMapping, case: Case) -> None:
    require_bounded(worker, case)


@MANY
@given(hostile_schemas.protobuf())
def test_protobuf_is_bounded(worker: MeasuredMapping, case: Case) -> None:
    require_bounded(worker, case)


@MANY
@given(hostile_schemas.json_values)
def test_json_schema_is_bounded(worker: MeasuredMapping, case: Case) -> None:
    require_bounded(worker, case)


@MANY
@given(hostile_schemas.references)
def test_references_are_bounded(worker: MeasuredMapping, case: Case) -> None:
    require_bounded(worker, case)


@pytest.mark.parametrize("name", hostile_schemas.LONG)
def test_a_long_schema_is_bounded(worker: MeasuredMapping, name: str) -> None:
    require_bounded(worker, hostile_schemas.LONG[name])


@MANY
@given(hostile_schemas.cloudevents)
def test_cloudevents_are_bounded(worker: MeasuredMapping, case: Case) -> None:
    require_bounded(worker, case)
