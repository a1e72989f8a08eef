"""The fields of a workflow's file or decorator, of which two lines are enough; and the decorator."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final, Literal, ParamSpec, TypeVar, overload

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from workorders.core.definitions.fields import (
    DAY_SECONDS,
    KIB,
    MIB,
    ConnectionId,
    DagDefinition,
    Definition,
    KeyField,
    Text,
    Whole,
    byte_count,
    each_once,
    expecting,
    seconds,
)
from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.core.items import MAX_PUBLISHED_BYTES, MAX_PUBLISHED_MESSAGES

CALLABLE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""A function in a module, such as `clinic.events:register`."""

DEFAULT_CONTEXT_KEY: Final = "workorders_context"

MAX_RUNS: Final = 1_000_000_000
MAX_SECONDS: Final = 30 * 86_400
MAX_DAYS: Final = 36_500

OF_FUNCTIONS: Final = ("database", "max_log_bytes", "max_output_bytes", "max_published_messages", "max_published_bytes")
"""Fields that only a function has. A Dag has its own connections, and keeps what it returns, logs, and sends."""

RetriedState = Literal["failed", "crashed", "killed", "lost", "exception"]
RETRIED_STATES: Final[tuple[RetriedState, ...]] = ("failed", "crashed", "killed", "lost", "exception")

_MARK: Final = "__workorders_workflow__"
"""Attribute of a decorated function: its definition."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = Annotated[str, Field(pattern=f"^{CALLABLE}$"), expecting("a function as package.module:function")]
Age = Annotated[float, seconds(DAY_SECONDS, MAX_DAYS * DAY_SECONDS)]
Count = Annotated[
    Whole, Field(ge=1, le=MAX_RUNS), expecting(f"a whole number from 1 to {MAX_RUNS}, or null for no limit")
]


class Retries(Definition):
    """Retries of a run that did not succeed."""

    max_retries: Whole = Field(default=0, ge=0, le=1000)
    """Maximum number of automatic retries; a rerun by a person has them again."""
    first_delay: Annotated[float, seconds(0, MAX_SECONDS)] = 10.0
    """Time between the end of an attempt and its first retry."""
    exponential_backoff: bool = True
    """Whether each delay is twice the previous one; otherwise all are `first_delay`."""
    max_delay: Annotated[float, seconds(1, MAX_SECONDS)] = 3600.0
    """Maximum delay of an exponential back-off."""
    after: Annotated[
        tuple[RetriedState, ...],
        Field(min_length=1),
        AfterValidator(each_once),
        expecting(f"a list of some of {', '.join(RETRIED_STATES)}"),
    ] = RETRIED_STATES
    """States of a run that are retried."""


class Retention(Definition):
    """How long work orders are kept; their duplicate protection outlives them."""

    delete_after: Age | None = None
    """Age at which a finished work order is deleted; never if not given."""
    delete_errors_after: Age | None = None
    """The same for work orders that did not succeed, never earlier than `delete_after`; as `delete_after` if not
    given."""
    erase_after: Age | None = None
    """Age at which input, request, raw value, output, log, and error texts are erased; never if not given."""


class UserDatabase(Definition):
    """The database in which `context.transaction` writes."""

    connection: ConnectionId
    """Airflow connection of a Postgres database. It has the table `workorders_steps`, which `workorders steps
    create-table` creates."""
    statement_timeout: Annotated[float, seconds(0.001, MAX_SECONDS)] = 60.0
    """Maximum time of one statement."""
    lock_timeout: Annotated[float, seconds(0.001, MAX_SECONDS)] = 10.0
    """Maximum time for which a statement waits for a lock."""
    idle_timeout: Annotated[float, seconds(0.001, MAX_SECONDS)] = 60.0
    """Maximum time between two statements of a transaction."""


def _with_connection(value: Any) -> Any:
    if isinstance(value, str):
        return {"connection": value}
    if not isinstance(value, dict | UserDatabase):
        raise ValueError(f"expected the id of an Airflow connection, or its id and limits, got {value!r}.")
    return value


class Limits(Definition):
    """Limits of the workflow, checked before work orders are created."""

    max_waiting: Count | None = None
    """Maximum number of work orders that wait; no limit if not given."""
    max_per_day: Count | None = None
    """Maximum number of new runs per day (UTC): admitted work orders and reruns; no limit if not given."""
    on_reached: Literal["reject", "wait"] = "reject"
    """What happens at a limit: further work orders are rejected and can be rerun, or their source waits."""


class WorkflowDefinition(DagDefinition):
    """What the work orders of a workflow execute, and how."""

    task_ids: ClassVar[tuple[str, ...]] = ("wait_for_runs", "execute_runs")

    callable: Function | None = None
    """Function to call with (input, context), as `package.module:function`."""
    dag_id: Annotated[Text, expecting("the id of an Airflow Dag")] | None = None
    """Airflow Dag to run instead of a function. What its tasks return stays in Airflow."""
    context_key: Annotated[Text, expecting("a name such as workorders_context, or null")] | None = DEFAULT_CONTEXT_KEY
    """Key of the Dag run's conf that holds the run's context, in addition to the input; null leaves it out."""
    database: Annotated[UserDatabase, BeforeValidator(_with_connection, str | UserDatabase)] | None = None
    """Database of the function, for `context.transaction`: an Airflow connection, or a connection with limits."""
    concurrency: Count | None = None
    """Maximum number of runs at the same time; no limit if not given. 1 runs them one at a time, oldest first."""
    processes: Whole = Field(default=4, ge=1, le=1000)
    """Maximum number of runs that one worker executes at the same time; short ones share a process."""
    workers: Whole = Field(default=1, ge=1, le=1000)
    """How many tasks execute runs at the same time."""
    time_slice: Annotated[float, seconds(1, 3600)] = 120.0
    """Time after which a task begins no more runs and ends, so that Airflow can give its slot to another
    workflow."""
    linger: Annotated[float, seconds(0)] = 20.0
    """Time that a task waits for more runs before it ends, within its time slice. A run that arrives in this
    time needs no other task. The wait holds a worker slot; 0 does not wait. A workflow with a `dag_id` never waits."""
    timeout: Annotated[float, seconds(1, MAX_SECONDS)] = 300.0
    """Maximum time of one run; then it is killed."""
    retries: Retries = Field(default_factory=Retries)
    """Whether and when another attempt follows a run that did not succeed."""
    ordering_key: KeyField | None = None
    """Part of an input that serializes runs: those with the same value run one after the other, in the order of their
    source. One of stream, key, body, header:NAME, body:/json/pointer, request:/json/pointer, or a list of them."""
    retention: Retention = Field(default_factory=Retention)
    """How long work orders are kept."""
    limits: Limits = Field(default_factory=Limits)
    """How much the workflow accepts."""
    max_log_bytes: Annotated[int, byte_count(0, 64 * MIB)] = 64 * KIB
    """Maximum stored log of a run; the middle of a longer one is left out."""
    max_output_bytes: Annotated[int, byte_count(0, 32 * MIB)] = MIB
    """Maximum stored output of a run; a run with a larger one fails."""
    max_published_messages: Whole = Field(default=MAX_PUBLISHED_MESSAGES, ge=0, le=MAX_RUNS)
    """Maximum number of messages that a run publishes; a run that publishes more fails, and is not retried."""
    max_published_bytes: Annotated[int, byte_count(0, 256 * MIB)] = MAX_PUBLISHED_BYTES
    """Maximum size of what a run publishes: values, keys, and headers. A run that publishes more fails, and is not
    retried."""
    carry_headers: Annotated[tuple[Text, ...], expecting("a list of header names such as [traceparent]")] = (
        "traceparent",
        "tracestate",
    )
    """Headers of the message or request that the run's context, log, and published messages carry."""

    @model_validator(mode="after")
    def _does_one_thing(self) -> "WorkflowDefinition":
        if (self.callable is None) == (self.dag_id is None):
            raise ValueError("expected either callable or dag_id.")
        for name in () if self.callable else OF_FUNCTIONS:
            # A definition from the database has every field.
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"expected callable with {name}; for a Dag it has no effect, so leave out the field.")
        if self.dag_id is None and self.context_key != DEFAULT_CONTEXT_KEY:
            raise ValueError("expected dag_id with context_key; a function always gets its context.")
        return self

    @property
    def max_dag_runs(self) -> int:
        """How many Dag runs of the workflow may run at the same time."""
        return self.processes * self.workers


@overload
def workflow(function: Callable[Arguments, Result], /) -> Callable[Arguments, Result]: ...


@overload
def workflow(**fields: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]: ...


def workflow(function: Any = None, /, **fields: Any) -> Any:
    """Declare the decorated function as a workflow; its fields are those of a workflow file, without `callable`.

    Without fields, the parentheses may be left out. The name is the function's own unless another is given. The
    function stays what it is, and can be called.

    Raises:
        ConfigurationError: a field is wrong, or what is decorated is no function at the top of a module. The text has
            the line of the function.
    """

    def mark(function: Any) -> Any:
        if not inspect.isroutine(function):
            raise ConfigurationError(
                f"@workflow decorates a function and takes its fields by name, such as @workflow(name=...); got "
                f"{function!r}."
            )
        place = f"{function.__module__}:{function.__qualname__}"
        line = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_firstlineno", None)
        where = place if line is None else f"{place}, line {line}"
        if "." in function.__qualname__:
            raise ConfigurationError(f"{where}: a workflow is a function at the top of a module, and this one is not.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{where}: a workflow is a function that returns, and this one yields.")
        given = {"name": function.__name__, **fields, "callable": place}
        setattr(function, _MARK, validate(given, WorkflowDefinition, where=where))
        return function

    return mark if function is None else mark(function)


def declared_workflows(module: str) -> list[WorkflowDefinition]:
    """Return the definitions of the functions that a module decorates, in their order there."""
    try:
        imported = import_module(module)
    except ConfigurationError:
        raise
    except Exception as error:  # any error while a module is imported is a mistake in the configuration
        raise ConfigurationError(f"{module}: this module of workflows cannot be imported: {error!r}.") from error
    functions = (value for value in vars(imported).values() if getattr(value, "__module__", None) == module)
    return [getattr(function, _MARK) for function in functions if hasattr(function, _MARK)]
