"""The definition of a schedule: what its file may say."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson
from pydantic import BeforeValidator, Field, ValidationInfo

from workorders.core.definitions.fields import one_of
from workorders.core.definitions.trigger import TriggerDefinition

_PRESETS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_PARTS: Final = 5


def _schedule(value: Any) -> str:
    # What stands in the parts is judged where the DAG is made, by what Airflow itself reads schedules with.
    if isinstance(value, str) and (value in _PRESETS or len(value.split()) == _PARTS):
        return value
    raise ValueError(
        f"expected a cron expression of five parts such as 30 6 * * 1-5, or one of {', '.join(_PRESETS)}, "
        f"got {value!r}."
    )


def _timezone(value: Any) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise ValueError(f"expected the name of a time zone such as Europe/Berlin, got {value!r}.") from error
    return str(value)


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected a mapping such as {{region: north}}, got {value!r}.")
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise ValueError(f"expected what JSON can hold: {error}.") from error
    return value


def _catchup(value: Any, info: ValidationInfo) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {value!r}.")
    if value and info.data.get("start") is None:
        raise ValueError("expected start beside catchup, which says where the first interval begins.")
    return value


def _start(value: Any) -> datetime | None:
    form = "a time with its offset such as 2026-03-01T00:00:00+01:00"
    if value is None:
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected {form}, got {value!r}.") from error
    if time.tzinfo is None:
        raise ValueError(f"expected {form}, got {value!r}.")
    return time.astimezone(UTC)


class CronTriggerDefinition(TriggerDefinition):
    """A source of work orders: every time of a schedule."""

    type: Annotated[Literal["cron"], one_of("cron")] = "cron"
    """Type of the trigger."""
    schedule: Annotated[str, BeforeValidator(_schedule)]
    """When: a cron expression of five parts, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@quarterly`, `@yearly`."""
    timezone: Annotated[str, BeforeValidator(_timezone)] = "UTC"
    """Time zone of the schedule, such as `Europe/Berlin`."""
    start: Annotated[datetime | None, BeforeValidator(_start)] = None
    """Begin of the first interval, with `catchup`; a time with its offset."""
    catchup: Annotated[bool, BeforeValidator(_catchup)] = False
    """Whether intervals that nobody ran, since `start` or while the DAG was paused, are made up for; each of them."""
    input: Annotated[dict[str, Any], BeforeValidator(_input)] = Field(default_factory=dict)
    """The input of each work order."""
    last_output: bool = False
    """Whether the output of the trigger's last successful work order is the next input; `input` is then the first."""
