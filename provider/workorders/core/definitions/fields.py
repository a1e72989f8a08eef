"""Types of the fields in a definition's file: pydantic's constraints, and forms that people write, such as `64MiB`."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
)

from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.json_text import dumps
from workorders.core.selectors import FORM, Selector
from workorders.times import UNITS

KIB: Final = 1024
MIB: Final = 1024 * KIB
DAY_SECONDS: Final = 86_400.0

_BYTE_UNITS: Final = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z]+)")

_Value = TypeVar("_Value")


class Definition(BaseModel):
    """Base of everything that a file defines: it does not change, and a field that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldError(ValueError):
    """A field is wrong for the definition as a whole; the error is shown with the field's path."""

    def __init__(self, path: tuple[str, ...], sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def expecting(form: str) -> WrapValidator:
    """Describe in words what a value must be, for an error about any constraint of the type that this annotates.

    Where a validator within has raised an error in its own words, the first of these is the error.
    """

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            own_words = [item["ctx"]["error"] for item in error.errors() if item["type"] == "value_error"]
            raise ValueError(own_words[0] if own_words else f"expected {form}, got {value!r}.") from error

    return WrapValidator(check)


def _require_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected values that JSON can hold: {error}.") from error
    return value


def each_once(values: tuple[_Value, ...]) -> tuple[_Value, ...]:
    """Return the values of a list, or raise a ValueError if one is repeated."""
    if len(set(values)) < len(values):
        raise ValueError(f"expected each entry once, got {list(values)!r}.")
    return values


JsonObject = Annotated[dict[str, Any], AfterValidator(_require_json)]
"""A mapping that JSON can hold."""
Name = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100),
    expecting("up to 100 small letters, digits, - and _, beginning with a letter or digit"),
]
Whole = Annotated[int, Strict()]
"""A whole number, and no true or false, which Python counts as one."""
Number = Annotated[float, Strict(), AllowInfNan(False)]
Text = Annotated[str, Field(pattern=r"\S")]
"""A text that is not blank."""
ConnectionId = Annotated[Text, expecting("the id of an Airflow connection")]
ImportPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
"""A name in a module, such as `shop.alerts.page`."""


def byte_count(minimum: int, maximum: int | None = None) -> BeforeValidator:
    """Accept a number of bytes, or a text such as `64MiB`; annotates an int."""
    text = Annotated[str, Field(pattern=_pattern(_BYTE_UNITS), examples=["64MiB"])]
    number = Annotated[int, Field(ge=minimum, le=maximum)]
    form = "a whole number of bytes or a text such as 64MiB"
    return BeforeValidator(_quantity(_BYTE_UNITS, form, "bytes", (minimum, maximum), int), number | text)


def seconds(minimum: float, maximum: float | None = None) -> BeforeValidator:
    """Accept a number of seconds, or a text such as `500ms`; annotates a float."""
    text = Annotated[str, Field(pattern=_pattern(UNITS), examples=["500ms", "2s", "24h"])]
    number = Annotated[float, Field(ge=minimum, le=maximum)]
    form = "a number of seconds or a text such as 500ms, 2s, 1m or 1h"
    return BeforeValidator(_quantity(UNITS, form, "s", (minimum, maximum), float), number | text)


def _pattern(units: Iterable[str]) -> str:
    return rf"^[0-9]+(\.[0-9]+)?({'|'.join(units)})$"


def _quantity(
    units: Mapping[str, float], form: str, unit: str, bounds: tuple[float, float | None], kind: type[float]
) -> Callable[[Any], float]:
    minimum, maximum = bounds

    def parse(value: Any) -> float:
        number: float = math.nan
        if isinstance(value, str):
            match = _QUANTITY.fullmatch(value.strip())
            if match:
                number = float(match[1]) * units.get(match[2], math.nan)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = value
        if not math.isfinite(number) or number != kind(number):
            raise ValueError(f"expected {form}, got {value!r}.")
        if number < minimum:
            raise ValueError(f"expected {form}, at least {minimum} {unit}, got {value!r}.")
        if maximum is not None and number > maximum:
            raise ValueError(f"expected {form}, at most {maximum} {unit}, got {value!r}.")
        return kind(number)

    return parse


def _selector(value: Any) -> Selector:
    found = _key(value)
    if len(found.parts) > 1:
        raise ValueError(f"expected one selector, got {found}.")
    return found


def _key(value: Any) -> Selector:
    found = value if isinstance(value, Selector) else Selector.parse(value)
    if len(set(found.parts)) < len(found.parts) or not found.parts:
        raise ValueError(f"expected a selector, or a list with each selector once, got {value!r}.")
    return found


def _written(selector: Selector) -> str | list[str]:
    return list(selector.parts) if selector.text.startswith("[") else selector.text


SelectorField = Annotated[
    Selector,
    PlainValidator(_selector),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": FORM}),
]
"""A selector, written as its text in files and in the database."""
KeyField = Annotated[
    Selector,
    PlainValidator(_key),
    PlainSerializer(_written, return_type=str | list[str]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": FORM},
                {"type": "array", "items": {"type": "string", "pattern": FORM}, "minItems": 1, "uniqueItems": True},
            ]
        }
    ),
]
"""A selector, or a list of them that are the key together."""


class TaskSettings(Definition):
    """Airflow's settings of one task; what is not given has Airflow's default."""

    pool: Annotated[Text, expecting("the name of an Airflow pool")] | None = None
    """Airflow pool whose slots the task takes."""
    queue: Annotated[Text, expecting("the name of a queue of the executor")] | None = None
    """Queue of the executor, such as that of certain Celery workers."""
    executor: Annotated[Text, expecting("the name of one of Airflow's executors")] | None = None
    """Executor, if Airflow has several: a name or an import path of `[core] executor`."""
    executor_config: dict[str, Any] = Field(default_factory=dict)
    """Settings for the executor, such as `pod_template_file` for Kubernetes."""
    priority_weight: Annotated[Whole, expecting("a whole number")] | None = None
    """Priority among the tasks that wait for a slot; the higher, the sooner."""


class DagDefinition(Definition):
    """Base of what a file defines that has Dags: a trigger, or a workflow."""

    task_ids: ClassVar[tuple[str, ...]] = ()
    """The tasks of the Dags, which `tasks` may name."""

    name: Name
    """Unique name: small letters, digits, `-` and `_`. The ids of its Dags contain it."""
    description: str = ""
    """Purpose; shown with the Dags."""
    owner: str = "workorders"
    """Owner of the Dags in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the Dags, in addition to those that every Dag of its kind gets."""
    database_connection: ConnectionId = DATABASE_CONNECTION
    """Airflow connection of the Postgres database that holds the work orders."""
    tasks: dict[str, TaskSettings] = Field(default_factory=dict)
    """Airflow's settings of single tasks, by the id of the task: pool, queue, executor, and priority."""

    @field_validator("tasks", mode="after")
    @classmethod
    def _exist(cls, tasks: dict[str, TaskSettings]) -> dict[str, TaskSettings]:
        if unknown := sorted(set(tasks) - set(cls.task_ids)):
            known = ", ".join(cls.task_ids)
            form = f"some of the tasks {known}" if known else "no tasks, because there is no Dag"
            raise ValueError(f"expected {form}, got {', '.join(unknown)}.")
        return tasks
