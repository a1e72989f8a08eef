"""The definition of a workflow: what its file or its decorator may say, and the defaults that make two lines enough."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from workorders.core.definitions.fields import BYTES_SCHEMA, KIB, MIB, byte_count, one_of, text, whole_number
from workorders.core.definitions.selector_field import SelectorField
from workorders.core.definitions.trigger import Name

CALLABLE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""A function in a module, such as `clinic.events:register`."""

DEFAULT_CONTEXT_KEY: Final = "workorders_context"

MOST_RUNS: Final = 1_000_000_000
LONGEST_SECONDS: Final = 30 * 86_400
LONGEST_DAYS: Final = 36_500

RetriedState = Literal["failed", "crashed", "killed", "lost", "exception"]
RETRIED_STATES: Final[tuple[RetriedState, ...]] = ("failed", "crashed", "killed", "lost", "exception")


def _callable(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(CALLABLE, value):
        raise ValueError(f"expected a function as package.module:function, got {value!r}.")
    return value


def _states(value: Any) -> tuple[str, ...]:
    form = f"a list of some of {', '.join(RETRIED_STATES)}"
    if not isinstance(value, list | tuple) or not value or any(state not in RETRIED_STATES for state in value):
        raise ValueError(f"expected {form}, got {value!r}.")
    if len(set(value)) < len(value):
        raise ValueError(f"expected every state once, got {list(value)!r}.")
    return tuple(value)


def _names(value: Any) -> tuple[str, ...]:
    form = "a list of header names such as [traceparent]"
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"expected {form}, got {value!r}.")
    return tuple(value)


def _days(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LONGEST_DAYS):
        return value
    raise ValueError(f"expected a whole number of days from 1 to {LONGEST_DAYS}, or null for ever, got {value!r}.")


def _count(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_RUNS):
        return value
    raise ValueError(f"expected a whole number from 1 to {MOST_RUNS}, or null for no limit, got {value!r}.")


Callable = Annotated[str, BeforeValidator(_callable), Field(json_schema_extra={"pattern": f"^{CALLABLE}$"})]
Days = Annotated[int | None, BeforeValidator(_days)]
Count = Annotated[int | None, BeforeValidator(_count)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Retries(_Part):
    """What happens after a run that did not succeed."""

    attempts: Annotated[int, whole_number(0, 1000), Field(json_schema_extra={"minimum": 0})] = 0
    """Most further attempts that are made by themselves; a rerun by a person has them again."""
    first_delay_seconds: Annotated[int, whole_number(0, LONGEST_SECONDS), Field(json_schema_extra={"minimum": 0})] = 10
    """Time (seconds) between the end of an attempt and its first retry."""
    doubling: bool = True
    """Whether each further delay is twice the one before."""
    longest_delay_seconds: Annotated[int, whole_number(1, LONGEST_SECONDS), Field(json_schema_extra={"minimum": 1})] = (
        3600
    )
    """Longest delay (seconds) that doubling comes to."""
    after: Annotated[tuple[RetriedState, ...], BeforeValidator(_states)] = RETRIED_STATES
    """States of a run that are retried."""


class Retention(_Part):
    """How long work orders are kept; their duplicate protection outlives them."""

    days: Days = None
    """Days after which a finished work order is deleted; never if not given."""
    keep_errors_days: Days = None
    """Days for work orders that did not succeed; as `days` if not given."""
    wipe_bodies_after_days: Days = None
    """Days after which the input's body, the output and the log are wiped; never if not given."""


class Limits(_Part):
    """How much may be asked of the workflow; checked before work orders are created."""

    waiting: Count = None
    """Most work orders that wait; no limit if not given."""
    per_day: Count = None
    """Most runs asked for a day (UTC): work orders let in, and reruns; no limit if not given."""
    kind: Annotated[Literal["soft", "hard"], one_of("soft", "hard")] = "soft"
    """What is beyond a limit: rejected, and can be retried (soft), or the source has to wait (hard)."""


class WorkflowDefinition(_Part):
    """What a work order asks to be done, and how."""

    name: Name
    """Unique name: small letters, digits, `-` and `_`. Triggers name it, and its DAG is named after it."""
    callable: (
        Annotated[str, BeforeValidator(_callable), Field(json_schema_extra={"pattern": f"^{CALLABLE}$"})] | None
    ) = None
    """Function to call with (input, context), as `package.module:function`."""
    dag_id: Annotated[str, text("the id of an Airflow DAG")] | None = None
    """Airflow DAG to run in place of a function."""
    context_key: Annotated[str, text("a name such as workorders_context, or null")] | None = DEFAULT_CONTEXT_KEY
    """Key of the conf under which a run of `dag_id` finds the run's context beside the input; null leaves it out."""
    output_task: Annotated[str, text("the id of a task of the DAG")] | None = None
    """Task of `dag_id` whose returned value is the run's output; none is kept if not given."""
    description: str = ""
    """What the workflow is for; shown with its DAG."""
    owner: str = "workorders"
    """Owner of the DAG in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the DAG, beside the ones that every workflow gets."""
    database_connection: Annotated[str, text("the id of an Airflow connection")] = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    concurrency: Count = None
    """Most runs at a time; no limit if not given. 1 means one at a time, oldest first."""
    processes: Annotated[int, whole_number(1, 1000), Field(json_schema_extra={"minimum": 1})] = 4
    """Most runs at work at the same time in one group; short ones share a process, for that is faster."""
    groups: Annotated[int, whole_number(1, 1000), Field(json_schema_extra={"minimum": 1})] = 1
    """How many tasks work through groups at the same time."""
    claim_seconds: Annotated[int, whole_number(1, 3600), Field(json_schema_extra={"minimum": 1})] = 120
    """Time slice (seconds): after it a task begins no more runs and ends, so that Airflow can give its slot to another
    workflow."""
    timeout_seconds: Annotated[int, whole_number(1, LONGEST_SECONDS), Field(json_schema_extra={"minimum": 1})] = 300
    """Longest time (seconds) of one run; then it is killed."""
    retries: Retries = Field(default_factory=Retries)
    """Whether and when a run that did not succeed is followed by another attempt."""
    lane: SelectorField | None = None
    """What of an input serialises runs: those with the same value run one after the other, in their source's order,
    and different values side by side. stream, key, body, header:NAME, body:/json/pointer or request:/json/pointer."""
    retention: Retention = Field(default_factory=Retention)
    """How long work orders are kept."""
    limits: Limits = Field(default_factory=Limits)
    """How much may be asked of the workflow."""
    log_bytes: Annotated[int, byte_count(0, 64 * MIB), BYTES_SCHEMA] = 64 * KIB
    """Largest log kept of a run; the middle of a longer one is left out."""
    output_bytes: Annotated[int, byte_count(0, 32 * MIB), BYTES_SCHEMA] = MIB
    """Largest output kept of a run; a run with a larger one fails."""
    carry_headers: Annotated[tuple[str, ...], BeforeValidator(_names)] = ("traceparent", "tracestate")
    """Headers of the message or request that the run's context, log and own messages carry on."""

    @model_validator(mode="after")
    def _does_one_thing(self) -> "WorkflowDefinition":
        if (self.callable is None) == (self.dag_id is None):
            raise ValueError("expected either callable or dag_id.")
        if self.dag_id is None and self.output_task is not None:
            raise ValueError("expected dag_id beside output_task, which names a task of that DAG.")
        if self.dag_id is None and self.context_key != DEFAULT_CONTEXT_KEY:
            raise ValueError("expected dag_id beside context_key; a function is given its context anyway.")
        return self
