"""The definition of a workflow: what its file or its decorator may say, and the defaults that make two lines enough."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from workorders.core.definitions.fields import (
    KIB,
    MIB,
    ConnectionId,
    Definition,
    Name,
    SelectorField,
    Text,
    Whole,
    byte_count,
    each_once,
    expecting,
)

CALLABLE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""A function in a module, such as `clinic.events:register`."""

DEFAULT_CONTEXT_KEY: Final = "workorders_context"

MOST_RUNS: Final = 1_000_000_000
LONGEST_SECONDS: Final = 30 * 86_400
LONGEST_DAYS: Final = 36_500

RetriedState = Literal["failed", "crashed", "killed", "lost", "exception"]
RETRIED_STATES: Final[tuple[RetriedState, ...]] = ("failed", "crashed", "killed", "lost", "exception")

Callable = Annotated[str, Field(pattern=f"^{CALLABLE}$"), expecting("a function as package.module:function")]
Days = Annotated[
    Whole,
    Field(ge=1, le=LONGEST_DAYS),
    expecting(f"a whole number of days from 1 to {LONGEST_DAYS}, or null for ever"),
]
Count = Annotated[
    Whole, Field(ge=1, le=MOST_RUNS), expecting(f"a whole number from 1 to {MOST_RUNS}, or null for no limit")
]


class Retries(Definition):
    """What happens after a run that did not succeed."""

    attempts: Whole = Field(default=0, ge=0, le=1000)
    """Most further attempts that are made by themselves; a rerun by a person has them again."""
    first_delay_seconds: Whole = Field(default=10, ge=0, le=LONGEST_SECONDS)
    """Time (seconds) between the end of an attempt and its first retry."""
    doubling: bool = True
    """Whether each further delay is twice the one before."""
    longest_delay_seconds: Whole = Field(default=3600, ge=1, le=LONGEST_SECONDS)
    """Longest delay (seconds) that doubling comes to."""
    after: Annotated[
        tuple[RetriedState, ...],
        Field(min_length=1),
        AfterValidator(each_once),
        expecting(f"a list of some of {', '.join(RETRIED_STATES)}"),
    ] = RETRIED_STATES
    """States of a run that are retried."""


class Retention(Definition):
    """How long work orders are kept; their duplicate protection outlives them."""

    days: Days | None = None
    """Days after which a finished work order is deleted; never if not given."""
    keep_errors_days: Days | None = None
    """Days for work orders that did not succeed; as `days` if not given."""
    wipe_bodies_after_days: Days | None = None
    """Days after which the input's body, the output and the log are wiped; never if not given."""


class Limits(Definition):
    """How much may be asked of the workflow; checked before work orders are created."""

    waiting: Count | None = None
    """Most work orders that wait; no limit if not given."""
    per_day: Count | None = None
    """Most runs asked for a day (UTC): work orders let in, and reruns; no limit if not given."""
    kind: Literal["soft", "hard"] = "soft"
    """What is beyond a limit: rejected, and can be retried (soft), or the source has to wait (hard)."""


class WorkflowDefinition(Definition):
    """What a work order asks to be done, and how."""

    name: Name
    """Unique name: small letters, digits, `-` and `_`. Triggers name it, and its DAG is named after it."""
    callable: Callable | None = None
    """Function to call with (input, context), as `package.module:function`."""
    dag_id: Annotated[Text, expecting("the id of an Airflow DAG")] | None = None
    """Airflow DAG to run in place of a function."""
    context_key: Annotated[Text, expecting("a name such as workorders_context, or null")] | None = DEFAULT_CONTEXT_KEY
    """Key of the conf under which a run of `dag_id` finds the run's context beside the input; null leaves it out."""
    output_task: Annotated[Text, expecting("the id of a task of the DAG")] | None = None
    """Task of `dag_id` whose returned value is the run's output; none is kept if not given."""
    description: str = ""
    """What the workflow is for; shown with its DAG."""
    owner: str = "workorders"
    """Owner of the DAG in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the DAG, beside the ones that every workflow gets."""
    database_connection: ConnectionId = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    concurrency: Count | None = None
    """Most runs at a time; no limit if not given. 1 means one at a time, oldest first."""
    processes: Whole = Field(default=4, ge=1, le=1000)
    """Maximum number of runs that one worker executes at the same time; short ones share a process."""
    workers: Whole = Field(default=1, ge=1, le=1000)
    """How many tasks execute runs at the same time."""
    claim_seconds: Whole = Field(default=120, ge=1, le=3600)
    """Time slice (seconds): after it a task begins no more runs and ends, so that Airflow can give its slot to another
    workflow."""
    timeout_seconds: Whole = Field(default=300, ge=1, le=LONGEST_SECONDS)
    """Longest time (seconds) of one run; then it is killed."""
    retries: Retries = Field(default_factory=Retries)
    """Whether and when a run that did not succeed is followed by another attempt."""
    ordering_key: SelectorField | None = None
    """Part of an input that serializes runs: those with the same value run one after the other, in the order of their
    source. One of stream, key, body, header:NAME, body:/json/pointer, request:/json/pointer."""
    retention: Retention = Field(default_factory=Retention)
    """How long work orders are kept."""
    limits: Limits = Field(default_factory=Limits)
    """How much may be asked of the workflow."""
    log_bytes: Annotated[int, byte_count(0, 64 * MIB)] = 64 * KIB
    """Largest log kept of a run; the middle of a longer one is left out."""
    output_bytes: Annotated[int, byte_count(0, 32 * MIB)] = MIB
    """Largest output kept of a run; a run with a larger one fails."""
    carry_headers: Annotated[tuple[Text, ...], expecting("a list of header names such as [traceparent]")] = (
        "traceparent",
        "tracestate",
    )
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
