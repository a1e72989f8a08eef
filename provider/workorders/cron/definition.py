"""The fields of a cron trigger's file."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from workorders.core.definitions.fields import JsonObject, expecting
from workorders.core.definitions.trigger import TriggerDefinition

_PRESETS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_TIME: Final = "a time with its UTC offset such as 2026-03-01T00:00:00+01:00"
# Airflow reads what is in the parts when the Dag is made.
_Schedule = Annotated[
    str,
    Field(pattern=rf"^({'|'.join(_PRESETS)}|\s*\S+(\s+\S+){{4}}\s*)$"),
    expecting(f"a cron expression of five parts such as 30 6 * * 1-5, or one of {', '.join(_PRESETS)}"),
]


def _timezone(value: Any) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise ValueError(f"expected the name of a time zone such as Europe/Berlin, got {value!r}.") from error
    return str(value)


def _catchup(value: bool, info: ValidationInfo) -> bool:
    if value and info.data.get("start") is None:
        raise ValueError("expected start with catchup: the beginning of the first interval.")
    return value


def _start(value: Any) -> datetime | None:
    if value is None:
        return None
    time: datetime | None = None
    with suppress(ValueError, TypeError):
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if time is None or time.tzinfo is None:
        raise ValueError(f"expected {_TIME}, got {value!r}.")
    return time.astimezone(UTC)


class CronTriggerDefinition(TriggerDefinition):
    """A source of work orders: every interval of a schedule."""

    task_ids: ClassVar[tuple[str, ...]] = ("create_work_order",)
    request_fields = frozenset({"scheduled_for", "interval_start", "schedule", "timezone", "input", "conf"})

    type: Literal["cron"] = "cron"
    """Type of the trigger."""
    schedule: _Schedule
    """A cron expression of five parts, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@quarterly`, `@yearly`."""
    timezone: Annotated[str, BeforeValidator(_timezone)] = "UTC"
    """Time zone of the schedule, such as `Europe/Berlin`."""
    start: Annotated[datetime | None, BeforeValidator(_start)] = None
    """Beginning of the first interval, with `catchup`; a time with its UTC offset."""
    catchup: Annotated[bool, AfterValidator(_catchup)] = False
    """Whether each interval since `start`, or while the Dag was paused, gets its work order later."""
    input: Annotated[JsonObject, expecting("a mapping such as {region: north}")] = Field(default_factory=dict)
    """The input of each work order. Fields in the conf of a Dag run replace those of the same name."""
    use_last_output: bool = False
    """Whether the output of the last successful work order is the next input; `input` is then the first one."""
