import math
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.cron.definition import CronTriggerDefinition


def load(**fields: Any) -> CronTriggerDefinition:
    content = {"name": "nightly", "type": "cron", "workflow": "ship", "schedule": "@daily", **fields}
    return validate(content, CronTriggerDefinition, where="a.yaml")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("schedule", "every day", "expected a cron expression of five parts such as 30 6 * * 1-5, or one of @hourly"),
        ("schedule", "@continuous", "expected a cron expression"),
        ("schedule", 7, "expected a cron expression"),
        ("timezone", "Berlin", "expected the name of a time zone such as Europe/Berlin, got 'Berlin'."),
        ("timezone", "../etc", "expected the name of a time zone"),
        ("timezone", 7, "expected the name of a time zone"),
        ("input", [1], "expected a mapping such as {region: north}, got [1]."),
        ("input", {"a": math.nan}, "expected values that JSON can hold: the value at /a is nan"),
        (
            "idempotency",
            {"key": "key", "window": 60},
            "expected a selector such as body:/id, or request:/ with one of",
        ),
        ("idempotency", {"key": "header:id", "window": 60}, "expected a selector other than a header, got header:id"),
        ("start", "2026-03-01", "expected a time with its UTC offset"),
        ("start", "soon", "expected a time with its UTC offset"),
        ("catchup", True, "expected start with catchup: the beginning of the first interval."),
        ("catchup", "daily", "expected true or false, got 'daily'."),
        ("start", 7, "expected a time with its UTC offset"),
    ],
)
def test_a_wrong_value_is_answered_with_the_field_and_the_right_form(field: str, value: object, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(**{field: value})
    assert re.match(rf"a\.yaml: {field}(\.key)?: ", str(refused.value))
    assert sentence in str(refused.value)


def test_a_start_is_kept_in_utc() -> None:
    assert load(start="2026-03-01T00:00:00+01:00").start == datetime(2026, 2, 28, 23, tzinfo=UTC)


def test_a_definition_survives_the_way_through_the_database() -> None:
    before = load(start="2026-03-01T00:00:00+01:00", catchup=True, input={"a": [1, None]})
    assert CronTriggerDefinition.model_validate_json(before.model_dump_json()) == before
